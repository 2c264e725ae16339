package golden

import (
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
