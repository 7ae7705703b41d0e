"""
The command line: one file a command, thin; a command imports what it needs when called.

| commands | talk to |
|---|---|
| serve, check | the configuration |
| status, release-check | a running server, over HTTP |
| explain | the reader of spans |
"""
