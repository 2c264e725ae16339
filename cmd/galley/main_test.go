package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"galley": func() { os.Exit(run(os.Args[1:])) }})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

func TestExitCodes(t *testing.T) {
	for want, args := range map[int][]string{
		0: {"doctor", "--fast"},
		2: {"train", "--steps", "0"},
	} {
		if got := run(args); got != want {
			t.Errorf("galley %v: exit code %d, want %d", args, got, want)
		}
	}
	if got := report(errFailed); got != exitFailed {
		t.Errorf("a failed check exits with %d", got)
	}
}
