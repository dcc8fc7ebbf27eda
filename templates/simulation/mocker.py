"""Start Dynamo's mocker (1.2.1) so that it refuses what it cannot hold, and starts quickly. Arguments are the mocker's own.

As it is, the mocker registers a context length of 0, which tells the front end to check nothing; a prompt larger than its cache then is
never answered, and the mocker takes memory without end. Registered with none, the length in the model's config.json holds, and the front
end answers 400 before any worker is asked. And its module for KV-cache sizes imports `transformers`, five sixths of a mocker's start-up,
for a size that our command line states.
"""

import sys
import types

sizes = types.ModuleType("dynamo.mocker.utils.kv_cache")
sizes.DEFAULT_KV_TRANSFER_BANDWIDTH_GBPS = 64.0  # the mocker's own default; the name has to be there
sizes.compute_kv_bytes_per_token = lambda *_: None
sys.modules[sizes.__name__] = sizes

import dynamo.mocker.main as mocker  # noqa: E402

original = mocker.EntrypointArgs
mocker.EntrypointArgs = lambda **given: original(**{**given, "context_length": None})

if __name__ == "__main__":
    mocker.main()
