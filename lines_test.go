package galley_test

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const lineLimit = 110

// unbreakable matches lines that cannot be broken: struct tags, addresses, directives, and preformatted lines
// of doc comments.
var unbreakable = regexp.MustCompile("`[a-z]+:\"|https?://|^\\s*//go:|^\\s*//\t")

// generated matches the first line of files that a program writes.
var generated = regexp.MustCompile(`^// Code generated `)

// TestLines checks that no line of Go or of prose is longer than lineLimit characters. Generated files may
// have longer ones, as may raw strings, which are other languages, samples and recorded text, the output of
// examples, C before an import of it, and fenced blocks, tables, headings and drawings of Markdown.
func TestLines(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it reads all source, which go test does")
	}
	out, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		t.Skipf("not a checkout: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(path, "testdata/") || strings.HasSuffix(path, "_cgo.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if generated.Match(text) {
			continue
		}
		free := proseFree
		if strings.HasSuffix(path, ".go") {
			free = rawLines
		}
		may := free(text)
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line); n > lineLimit && !may[i+1] && !unbreakable.MatchString(line) {
				t.Errorf("%s:%d: %d characters, want at most %d", path, i+1, n, lineLimit)
			}
		}
	}
}

// rawLines returns the numbers of the lines of a Go file that have raw strings or outputs of examples.
func rawLines(text []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lines, output := map[int]bool{}, 0 // output is the last line of an example's output so far
	for pos, kind, literal := s.Scan(); kind != token.EOF; pos, kind, literal = s.Scan() {
		first := file.Line(pos)
		if kind == token.COMMENT && (literal == "// Output:" || output > 0 && first == output+1) {
			output, lines[first] = first, true
		}
		if kind == token.STRING && literal[0] == '`' {
			for n := range strings.Count(literal, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
	return lines
}

// proseFree returns the numbers of the lines of a Markdown file that are not prose.
func proseFree(text []byte) map[int]bool {
	lines, fenced := map[int]bool{}, false
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
		}
		lines[i+1] = fenced || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(line, "#") ||
			strings.HasPrefix(line, "    ") || strings.ContainsAny(line, "─▶╰│")
	}
	return lines
}

// TestLinesFound checks that TestLines sees what it is for.
func TestLinesFound(t *testing.T) {
	if may := rawLines([]byte("package p\n\nvar x = `a\nb`\nvar y = \"c\"\n")); !may[3] || !may[4] || may[5] {
		t.Errorf("raw strings: got lines %v, want 3 and 4", may)
	}
	example := "package p\n\nfunc f() {\n\t// why\n\t// Output:\n\t// a\n}\n\n// after\n"
	if may := rawLines([]byte(example)); may[4] || !may[6] || may[9] {
		t.Errorf("outputs: got lines %v, want 5 and 6", may)
	}
	if may := proseFree([]byte("a\n```\nb\n```\n| c |\nd")); may[1] || !may[3] || !may[5] || may[6] {
		t.Errorf("prose: got lines %v, want 2, 3 and 5", may)
	}
}
