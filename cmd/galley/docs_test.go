package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/galley-ml/galley/internal/golden" // -update
)

// TestDocs runs every command that README.md and docs show, as it is written, in a directory that has what
// they name. Runs of minutes are made small by further flags; what cannot run here is skipped for the reason
// that skipped gives. Where a document shows what a command prints, that is compared; -update rewrites it.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs some forty commands")
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := scratch(t)
	n := 0
	for _, file := range append([]string{"../../README.md"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := &document{t: t, name: filepath.Base(file), lines: strings.Split(string(text), "\n"), dir: dir}
		n += d.check()
		if d.changed {
			if err := os.WriteFile(file, []byte(strings.Join(d.lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands were found", n)
	}
}

// scratch returns a directory with the files that documents name, and with the command on the path.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("It was the best of times, it was the worst of times. ", 40)
	for name, content := range map[string]string{
		"chat.jsonl": strings.Repeat(
			`{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}]}`+"\n", 8),
		"questions.jsonl": strings.Repeat(`{"question": "Who?", "choices": ["I.", "You."], "answer": 1}`+"\n", 3),
		"pairs.jsonl":     strings.Repeat(`{"prompt": "Who?", "chosen": "I.", "rejected": "You."}`+"\n", 8),
		"notes.txt":       text, "corpus/a.txt": text,
		"notes.jsonl": strings.Repeat("{\"text\": \"it was the age of wisdom, it was the age of foolishness\"}\n",
			40),
		"bin/galley": fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asCommand, self),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, model := range []string{"llama-dir", "DIR"} {
		if out, err := shell(dir, "galley train --save "+model+small("galley train")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// shell runs a line and is all that it prints.
func shell(dir, line string) (string, error) {
	c := exec.Command("sh", "-c", line)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	return string(out), err
}

// skipped is commands that do not run here, by a part of them, with the reason.
var skipped = []struct{ part, reason string }{
	{"--backend xla", "it needs an accelerator's plugin"}, {"=xla", "it needs an accelerator's plugin"},
	{",xla", "it needs an accelerator's plugin"}, {"check devices", "it needs an accelerator's plugin"},
	{"galley bench burgers --points 2048,10000", "it takes minutes: a shorter one stands before it"},
	{"galley check", "it needs a run that PyTorch recorded: .ci/run has them"},
	{"tokenizer.json", "it needs a tokenizer: testdata/tokenizer.txt runs it with one"}, {"galley data stats",
		"it needs the tokens of such a run"},
	{"go test", "it is the test that runs this one"}, {"go run ./examples",
		"examples have tests of their own"}, {"make ", "it is CI itself"},
	{
		"galley launch",
		"it needs an MPI library: TestLaunch runs it with one",
	}, {"galley status", "it needs an elastic job: TestElasticHosts runs it"},
	{"galley drain", "it needs an elastic job: TestElasticHosts runs it"}, {"mpirun -n", "it needs Open MPI"},
	{"mpiexec.hydra", "it needs MPICH"}, {"srun -n", "it needs Slurm"},
	{
		"galley serve",
		"it does not end: TestServe runs it",
	}, {"curl ", "it needs the server"}, {"galley bench serve", "it needs the server"},
	{"kill %1", "it ends the server"},
	{"go install", "it would write outside of the test"}, {"go get", "it needs a network"},
}

// small returns further flags that make a run short, where a line does not say them itself.
func small(line string) string {
	var flags [][2]string
	switch {
	case strings.HasPrefix(line, "galley train"), strings.HasPrefix(line, "galley trace"):
		flags = [][2]string{
			{"--steps", "2"}, {"--dim", "32"}, {"--heads", "4"}, {"--batch", "16"}, {"--seq", "16"}, {"--tokens",
				"2"}, {"--prompt", "'It was'"},
		}
		if strings.Contains(line, "--model") {
			flags = slices.DeleteFunc(flags, func(f [2]string) bool { return f[0] == "--dim" || f[0] == "--heads" })
		}
		if strings.HasPrefix(line, "galley trace") {
			flags = slices.DeleteFunc(flags,
				func(f [2]string) bool { return f[0] == "--tokens" || f[0] == "--prompt" })
		}
	case strings.Contains(line, "--probe --devices"):
		flags = [][2]string{{"--probe-time", "1s"}}
	case strings.HasPrefix(line, "galley finetune"):
		flags = [][2]string{{"--steps", "2"}, {"--batch", "2"}, {"--seq", "64"}}
	case strings.HasPrefix(line, "galley generate"):
		flags = [][2]string{{"--tokens", "2"}}
	case strings.HasPrefix(line, "galley bench step"):
		flags = [][2]string{{"--layers", "1"}, {"--dim", "32"}, {"--seq", "16"}, {"--batch", "2"},
			{"--vocab", "99"}, {"--runs", "1"}}
	case strings.HasPrefix(line, "galley bench decode"):
		flags = [][2]string{
			{"--layers", "1"},
			{"--dim", "64"},
			{"--heads", "4"},
			{"--ffn", "64"},
			{"--vocab", "99"},
			{"--runs", "2"},
		}
	case strings.HasPrefix(line, "galley calibrate"):
		flags = [][2]string{{"--passes", "1"}}
	}
	text := ""
	for _, f := range flags {
		if !regexp.MustCompile(regexp.QuoteMeta(f[0]) + `\b`).MatchString(line) {
			text += " " + f[0] + " " + f[1]
		}
	}
	return text
}

// document is a file and where a walk through it is.
type document struct {
	t         *testing.T
	name, dir string
	lines     []string
	changed   bool
}

// commandOf returns what a line asks a shell to do: without prompt, comment and what a document says beside
// it.
func commandOf(line string) string {
	line = strings.TrimPrefix(line, "$ ")
	line = strings.Replace(line, "go run ./cmd/galley", "galley", 1)
	if !regexp.MustCompile(`^(galley|go|make) `).MatchString(line) {
		return ""
	}
	line, _, _ = strings.Cut(line, " #")
	line = regexp.MustCompile(`  +[^- ].*$`).ReplaceAllString(line, "")
	return strings.TrimSpace(line)
}

// check runs the commands of the fenced blocks and is how many there are.
func (d *document) check() (found int) {
	fenced := false
	for i := 0; i < len(d.lines); i++ {
		line := d.lines[i]
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		text := commandOf(line)
		if !fenced || text == "" {
			continue
		}
		found++
		if k := slices.IndexFunc(skipped, func(s struct{ part, reason string }) bool {
			return strings.Contains(line,
				s.part)
		}); k >= 0 {
			d.t.Logf("%s:%d: %s: skipped: %s", d.name, i+1, text, skipped[k].reason)
			continue
		}
		end := i + 1
		for strings.HasPrefix(line, "$ ") && end < len(d.lines) && !strings.HasPrefix(d.lines[end],
			"$ ") && !strings.HasPrefix(d.lines[end], "```") {
			end++
		}
		d.run(i, end, text)
	}
	return found
}

// run runs the command of a line, and compares what it prints with the lines up to end, where the document
// shows it.
func (d *document) run(at, end int, text string) {
	shown := d.lines[at+1 : end]
	more := ""
	if len(shown) == 0 {
		more = small(text)
	}
	out, err := shell(d.dir, text+more)
	// A document may show a mistake: then the command fails with exit code 2, as it says.
	wrong := len(shown) > 0 && strings.HasPrefix(shown[0], "galley: ")
	if e, ok := err.(*exec.ExitError); wrong != (ok && e.ExitCode() == exitUsage) || err != nil && !ok {
		d.t.Errorf("%s:%d: %s%s: %v\n%s", d.name, at+1, text, more, err, out)
		return
	}
	if len(shown) == 0 || matches(shown, strings.Split(strings.TrimRight(out, "\n"), "\n")) {
		return
	}
	if f := flag.Lookup("update"); f == nil || f.Value.String() != "true" {
		d.t.Errorf("%s:%d: %s prints otherwise (go test ./cmd/galley -run TestDocs -update rewrites it):\n%s",
			d.name, at+1, text, out)
		return
	}
	d.lines, d.changed = slices.Replace(d.lines, at+1, end, shortened(shown, out)...), true
}

// plain returns a line without what differs from run to run and from edit to edit: times of a search, numbers
// of source lines, widths of columns.
func plain(line string) string {
	line = regexp.MustCompile(`\d+ looked into, \d+ strategies priced in \S+`).ReplaceAllString(line,
		"priced in T")
	line = regexp.MustCompile(`^[a-z0-9_]+\.go:\d+`).ReplaceAllString(line, "FILE:N")
	return strings.Join(strings.Fields(line), " ")
}

// matches reports whether the output has the shown lines in order; between those that an ellipsis parts,
// others may stand.
func matches(shown, out []string) bool {
	at, free := 0, false
	for _, line := range shown {
		if strings.TrimSpace(line) == "…" {
			free = true
			continue
		}
		for free && at < len(out) && plain(out[at]) != plain(line) {
			at++
		}
		if at == len(out) || plain(out[at]) != plain(line) {
			return false
		}
		at, free = at+1, false
	}
	return free || at == len(out)
}

// shortened returns an output with the parts that a document showed before, each found by its first line but
// for the numbers.
func shortened(shown []string, out string) (list []string) {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	words := func(line string) string { return regexp.MustCompile(`[0-9.]+`).ReplaceAllString(plain(line), "") }
	at, begins := 0, true
	for _, line := range shown {
		if strings.TrimSpace(line) == "…" {
			list, begins = append(list, line), true
			continue
		}
		if begins && len(list) > 0 {
			if k := slices.IndexFunc(lines[at:], func(l string) bool { return words(l) == words(line) }); k >= 0 {
				at += k
			}
		}
		if begins = false; at < len(lines) {
			list = append(list, lines[at])
			at++
		}
	}
	if !slices.ContainsFunc(list, func(s string) bool { return strings.TrimSpace(s) == "…" }) {
		return lines
	}
	return list
}
