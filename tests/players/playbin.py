#!/usr/bin/python3
"""GStreamer's playbin, as desktop players use it, steered by lines on standard input: position, seek SECONDS, pause, resume.

gst-play-1.0 itself goes only by a share of a length, which no transport stream over HTTP has after a seek."""

import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

Gst.init(None)
player = Gst.ElementFactory.make("playbin", None)
for sink in ("video-sink", "audio-sink"):
    element = Gst.ElementFactory.make("fakesink", None)
    element.set_property("sync", True)
    player.set_property(sink, element)
player.set_property("uri", sys.argv[1])
player.set_state(Gst.State.PLAYING)
for line in sys.stdin:
    word, *rest = line.split()
    wrong = player.get_bus().pop_filtered(Gst.MessageType.ERROR | Gst.MessageType.EOS)
    if wrong is not None:
        sys.exit(f"GStreamer ended: {wrong.get_structure().to_string()}")
    if word == "position":
        known, nanoseconds = player.query_position(Gst.Format.TIME)
        print(nanoseconds / Gst.SECOND if known else -1, flush=True)
    elif word == "seek":
        flags = Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT
        player.seek_simple(Gst.Format.TIME, flags, int(rest[0]) * Gst.SECOND)
    else:
        player.set_state(Gst.State.PAUSED if word == "pause" else Gst.State.PLAYING)
