#!/bin/sh
# Makes kjv-new-testament.txt from the Debian packages bible-kjv and bible-kjv-text: one verse a line, references cut off,
# a blank line between chapters.
set -eu
bible -f 'mat1:1-rev22:21' |
  awk '{ split($1, ref, ":"); if (NR > 1 && ref[1] != chapter) print ""; chapter = ref[1]; sub(/^[^ ]+ +/, ""); print }'
