"""talk.py - shows a streamed message as it comes (the events on standard input), and when it came.

Ends with a line "pieces N, first to last S s"; fails when the stream did not end as it should.
"""

import json
import sys
import time

pieces, times, ended = 0, [], False
sys.stdout.write("    ")
for line in sys.stdin:
    if not line.startswith("data: "):
        if line.strip() and not line.startswith(("event: ", ":")):
            sys.exit("\nthis is no event: " + line)
        continue
    event = json.loads(line[6:])
    if event["type"] == "content_block_delta":
        pieces += 1
        times.append(time.monotonic())
        sys.stdout.write(event["delta"]["text"])
        sys.stdout.flush()
    elif event["type"] == "message_stop":
        ended = True
if not ended:
    sys.exit("\nthe stream did not end")
print(f"\n    ({pieces} pieces, {times[-1] - times[0]:.1f} s from the first to the last)")
if times[-1] - times[0] < 0.2:
    sys.exit("this was not streamed: the pieces came all at once")
