"""Language models behind one port, `reasonbank.llm.port.Model`.

A call passes these layers, the outermost first. Each is a model around a model, and
`reasonbank.opening.model_of` puts them together:

    Preset      what the settings say about every call: temperature, effort, longest reply
    Scrubbed    no secret leaves with a prompt
    Cached      temperature 0 only; a hit costs nothing below; identical calls are made once
    Deadline    bounds all that follows, so that whoever shares a call shares its end
    Repaired    one more round when a reply breaks its schema
    Budgeted    cuts what is too long, counts tokens; a re-ask is paid for like a first one
    Limited     so many at once, so many a minute; a re-ask waits for its turn again
    adapter     OpenAIModel, AnthropicModel, SamplingModel (whose replies are not cached):
                validates the reply, counts in `Meters`; the SDK below retries what the network
                and a busy server did, and nothing else does

`Scripted` is the double for tests; it takes the adapter's place, or that of all of them.
"""
