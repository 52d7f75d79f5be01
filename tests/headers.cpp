// No code: its target compiles the headers that all tests share.
