package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(os.Args[1:]))
	}
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
	for _, args := range [][]string{
		{"train", "--mesh", "dp=2,ep=4"}, {"train", "--mesh", "xp=2"}, {"train", "--zero", "5"}, {"train", "--mesh",
			"pp=64", "--batch", "64"}, {"train", "--batch", "2", "--micro", "3"},
		{"train", "--mesh", "pp=2", "--schedule", "none.txt"}, {"train", "--offload",
			"optimizer:/dev/null/state"}, {"check", "strategies", "testdata"},
	} {
		if got := run(args); got != exitUsage {
			t.Errorf("galley %v: exit code %d, want %d", args, got, exitUsage)
		}
	}
	if got := report(errFailed); got != exitFailed {
		t.Errorf("a failed check exits with %d", got)
	}
}
