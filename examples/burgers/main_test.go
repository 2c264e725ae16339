package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	e, err := run(&out, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if !(e < 0.1) {
		t.Errorf("relative error %.3f\n%s", e, out.String())
	}
}
