package golden

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Section holds a part of a page to what a test prints, so that it cannot go stale: the text between the
// lines <!-- NAME --> and <!-- end --> after it. go test -update rewrites it.
func Section(t *testing.T, path, name, got string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := "<!-- " + name + " -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	want, after, ended := strings.Cut(rest, "<!-- end -->")
	if !ok || !ended {
		t.Fatalf("golden: %s has no section %s", path, name)
	}
	got = strings.TrimRight(got, "\n") + "\n"
	switch {
	case got == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+got+"<!-- end -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: section %s\ngot:\n%s\nwant:\n%s", path, name, got, want)
	}
}

// File holds a whole file, such as a picture of a page, to what a test makes. go test -update rewrites it.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: is not what the test makes: run go test -update and look at the difference", path)
	}
}

// Function returns the source of a function of a Go file, for a page that shows it.
func Function(t *testing.T, file, name string) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
			return string(src[set.Position(fn.Pos()).Offset:set.Position(fn.End()).Offset])
		}
	}
	t.Fatalf("golden: %s has no function %s", file, name)
	return ""
}
