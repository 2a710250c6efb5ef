#!/usr/bin/python3
"""Uses up one resource: eat.py memory BYTES | forks | cpu SECONDS-FILE."""

import os
import sys
import time


def memory(most):
    held = []
    while sum(map(len, held)) < most:
        held.append(bytearray(os.urandom(1) * (8 << 20)))
    print("took", most, flush=True)
    time.sleep(60)


def forks():
    made = 0
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError as error:
            print("forks", made, error.errno, flush=True)
            time.sleep(600)
        made += 1


def cpu():
    while True:
        pass


what = sys.argv[1]
if what == "memory":
    memory(int(sys.argv[2]))
elif what == "forks":
    forks()
elif what == "cpu":
    cpu()
