package xla

import (
	"errors"
	"testing"
)

// TestBrief: a plugin's error is one line, without its stacks, and one of memory can be told from others.
func TestBrief(t *testing.T) {
	for _, c := range []struct {
		text, want string
		memory     bool
	}{
		{"PJRT error (code=3): INVALID_ARGUMENT: bad shape\n=== Source Location Trace: ===\nx.cc:1",
			"INVALID_ARGUMENT: bad shape", false},
		{"failed to compile: PJRT error (code=12): PartitionId is not supported.\n\tmore",
			"PartitionId is not supported", false},
		{"Out of memory while trying to allocate 255.80GiB with allocator GPU_0_bfc on device 0",
			"out of device memory: cannot allocate 255.80GiB with allocator GPU_0_bfc on device 0: use a smaller " +
				"batch, or recompute in the backward pass", true},
		{"PJRT error (code=8): RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5 bytes.",
			"out of device memory: cannot allocate 5 bytes: use a smaller batch, or recompute in the backward pass",
			true},
		{"INTERNAL: 2 of 5 products failed. Example failure:\nINVALID_ARGUMENT: no algorithm\nmore",
			"INTERNAL: 2 of 5 products failed. Example failure: INVALID_ARGUMENT: no algorithm", false},
		{"INTERNAL: 2 of 5 products failed. Example failure:\nRESOURCE_EXHAUSTED: Out of memory while trying to " +
			"allocate 7GiB.\nmore", "out of device memory: cannot allocate 7GiB: use a smaller batch, or recompute " +
			"in the backward pass", true},
	} {
		err := brief(errors.New(c.text))
		if err.Error() != c.want {
			t.Errorf("got %q, want %q", err, c.want)
		}
		if _, ok := errors.AsType[*OutOfMemoryError](err); ok != c.memory {
			t.Errorf("%q: out of memory: got %v, want %v", c.text, ok, c.memory)
		}
	}
}
