#!/usr/bin/env python3
"""A worker of musterd that speaks its control channel. Standard library only.

    musterctl run --control frames --payload '{"steps": 3}' -- python3 worker.py

The protocol is in docs/control-channel.md. One thread reads and answers pings, also while the
work goes on; the work itself looks at `cancelled` between its steps.
"""

import json
import os
import queue
import socket
import struct
import sys
import threading
import time


class Channel:
    """Frames over the descriptor in MUSTER_CONTROL_FD."""

    def __init__(self):
        fd = int(os.environ.pop("MUSTER_CONTROL_FD"))
        os.set_inheritable(fd, False)  # programs started from here get no copy
        self.socket = socket.socket(fileno=fd)
        self.lock = threading.Lock()
        self.spawn = self.read()
        self.cancelled = threading.Event()
        self.running = threading.Event()
        self.running.set()
        self.messages = queue.Queue()
        self.answers = {}
        self.answered = threading.Condition()
        self.requests = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError("musterd has gone")
            data += part
        return data

    def read(self):
        (size,) = struct.unpack(">I", self.exactly(4))
        return json.loads(self.exactly(size))

    def send(self, kind, **fields):
        body = json.dumps({"type": kind, **fields}).encode()
        with self.lock:  # two threads write; a frame must stay in one piece
            self.socket.sendall(struct.pack(">I", len(body)) + body)

    def listen(self):
        """What musterd says, until it has gone; then the work has no one to report to."""
        try:
            while True:
                self.heard(self.read())
        except (EOFError, OSError):
            self.cancelled.set()

    def heard(self, frame):
        kind = frame["type"]
        if kind == "ping":
            self.send("pong", seq=frame["seq"])
        elif kind == "cancel":
            print("cancelled:", frame["reason"], file=sys.stderr)
            self.cancelled.set()
            self.running.set()
        elif kind == "pause":
            self.running.clear()
        elif kind == "resume":
            self.running.set()
        elif kind == "inject":
            self.messages.put(frame["message"])
        elif kind == "result":
            with self.answered:
                self.answers[frame["id"]] = frame
                self.answered.notify_all()
        # A type that is not known here is from a newer musterd: skipped.

    def request(self, what, /, **args):
        """Asks musterd for something and waits for the answer."""
        with self.answered:
            self.requests += 1
            number = self.requests
        self.send("request", id=number, name=what, args=args)
        with self.answered:
            self.answered.wait_for(lambda: number in self.answers)
            answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError("{name}: {message}".format(**answer["error"]))
        return answer["result"]


def work(channel):
    """A few steps, each with its use of tokens; helpers are started as siblings."""
    task = channel.spawn["payload"] or {}
    done = []
    for argv in task.get("helpers", []):
        helper = channel.request("spawn", argv=argv, env=dict(os.environ))
        print("helper", helper["worker"])
    for step in range(task.get("steps", 3)):
        channel.running.wait()
        if channel.cancelled.is_set():
            return None
        channel.send("event", event="step", fields={"number": step})
        time.sleep(task.get("pause", 0.01))
        channel.send("usage", input_tokens=100, output_tokens=10)
        done.append(step)
    # Words from outside that are still expected are waited for.
    for _ in range(task.get("messages", 0)):
        while not channel.cancelled.is_set():
            try:
                done.append(channel.messages.get(timeout=0.05))
                break
            except queue.Empty:
                pass
    return None if channel.cancelled.is_set() else done


def main():
    channel = Channel()
    channel.send("ready")
    try:
        done = work(channel)
    except Exception as error:
        channel.send("failed", error=str(error))
        return 1
    if done is None:
        return 130
    channel.send("result", outcome={"done": done})
    return 0


if __name__ == "__main__":
    sys.exit(main())
