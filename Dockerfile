# ReasonBank as a server, with its embedding model. docs/how-to/run-in-a-container.md says how to use it.
#
# BASE is any Debian root whose Python is 3.11 or later; one made by debootstrap will do.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
# Debian's packages are taken as they come: a version that is named is gone with its next fix.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
# Of postgres, qdrant, chroma, onnx, bus: what the bank's URL and settings need, separated by spaces.
ARG EXTRAS=""
COPY requirements/ requirements/
# Every file is the one whose hash was written down, and none runs code while it is installed.
RUN python3 -m venv tools \
    && tools/bin/pip install --no-cache-dir --only-binary :all: --require-hashes \
        --requirement requirements/build.txt \
    && python3 -m venv --without-pip /opt/reasonbank \
    && for each in core ${EXTRAS}; do \
        tools/bin/pip --python /opt/reasonbank/bin/python install --no-cache-dir \
            --only-binary :all: --require-hashes --requirement "requirements/${each}.txt" \
        || exit 1; \
    done
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
RUN tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && tools/bin/pip --python /opt/reasonbank/bin/python install --no-deps dist/*.whl

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 reasonbank \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home \
        --shell /usr/sbin/nologin reasonbank \
    && install --directory --mode 0700 --owner 10001 --group 10001 /data
COPY --from=build /opt/reasonbank /opt/reasonbank
# The bank is /data/reasonbank/bank.db, settings are read from /etc/reasonbank/config.toml.
ENV PATH=/opt/reasonbank/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/data \
    LANG=C.UTF-8 \
    XDG_CONFIG_HOME=/etc \
    XDG_DATA_HOME=/data \
    REASONBANK_HOST=0.0.0.0 \
    REASONBANK_PORT=8321
# By number, so that whoever runs it can see that it is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["python", "-c", \
    "import os; from urllib.request import urlopen; urlopen('http://127.0.0.1:' + os.environ['REASONBANK_PORT'] + '/readyz', timeout=8)"]
# The first process of a container is deaf to signals until it says otherwise: tini hears them.
ENTRYPOINT ["tini", "--", "reasonbank"]
# As JSON: what a server tells people has the owner's token in it, and a container's words are logged.
CMD ["serve", "--json"]
