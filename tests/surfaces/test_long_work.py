"""Long work of some does not hold up what others look at."""

import asyncio
import threading

import pytest

from reasonbank.settings import Server
from reasonbank.surfaces.http.app import Application
from reasonbank.surfaces.http.gate import AllowedHosts, RetryAfter


def test_who_looks_at_the_report_waits_for_no_consolidation(plain_bank):
    application = Application(plain_bank, tools="all", authenticate=False,
                              allowed_hosts=AllowedHosts.of("127.0.0.1", Server()))  # fmt: skip
    merging, done = threading.Event(), threading.Event()

    def consolidation():
        merging.set()
        assert done.wait(60)

    async def scene():
        long = asyncio.create_task(application._run(consolidation, alone=True))
        await asyncio.to_thread(merging.wait, 60)
        report = await application._run(lambda: "told", alone=True, waits=True)
        with pytest.raises(RetryAfter):
            await application._run(lambda: None, alone=True)
        done.set()
        await long
        return report

    try:
        assert asyncio.run(scene()) == "told"
    finally:
        done.set()
        application.close()
