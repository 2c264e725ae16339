// Package golden runs scripts of commands with their expected output, for tests.
//
// A script is prose, then blocks of a command line, its input, a line of four dashes and the output up to a
// blank line:
//
//	prune
//	func main(%0: f32[2]) {
//	  %1 = exp %0
//	  return %0
//	}
//	----
//	func main(%0: f32[2]) {
//	  return %0
//	}
//
// go test -update rewrites the outputs.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected output of golden files")

// Block is one command of a script.
type Block struct {
	// Command is the first word of the command line, Args the rest.
	Command string
	Args    []string
	Input   string
}

// Run runs every script that matches pattern; f says what a block prints.
func Run(t *testing.T, pattern string, f func(t *testing.T, b Block) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("golden: no file matches %s", pattern)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runFile(t, path, f) })
	}
}

func runFile(t *testing.T, path string, f func(*testing.T, Block) string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, part := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		input, want, ok := strings.Cut(part, "\n----\n")
		if !ok {
			if input, ok = strings.CutSuffix(part, "\n----"); !ok {
				out = append(out, part) // prose
				continue
			}
		}
		got := strings.TrimRight(f(t, parse(input)), "\n")
		if got != strings.TrimRight(want, "\n") && !*update {
			t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", path, strings.SplitN(input, "\n", 2)[0], got, want)
		}
		out = append(out, input+"\n----\n"+got)
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(input string) Block {
	line, rest, _ := strings.Cut(input, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return Block{Input: rest}
	}
	return Block{Command: words[0], Args: words[1:], Input: rest}
}
