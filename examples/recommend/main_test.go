package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	var b strings.Builder
	if err := run(&b, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"for 1x8 H100-SXM-80GB", "table.weight @[", "from the best", "step 2 on "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
