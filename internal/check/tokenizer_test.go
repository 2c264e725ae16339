package check

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokenizer(t *testing.T) {
	for _, pattern := range []string{"*", "recorded/*"} {
		dirs, err := filepath.Glob("../../tokenizer/testdata/" + pattern + "/cases.json")
		if err != nil || len(dirs) < 4 {
			t.Fatalf("%s: %d recordings: %v", pattern, len(dirs), err)
		}
		for _, path := range dirs {
			var out strings.Builder
			r, err := Tokenizer(&out, filepath.Dir(path), TokenizerConfig{})
			if err != nil || r.Failed() > 0 || r.Passed() == 0 {
				t.Errorf("%s: %v\n%s", path, err, &out)
			}
		}
	}
}

func TestTokenizerFindsDifferences(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../tokenizer/testdata/bytelevel/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := `[{"text":"a","ids":[1],"offsets":[[0,2]],"decoded":"b"},{"text":"","ids":[]}]`
	for name, text := range map[string]string{"tokenizer.json": string(text), "cases.json": cases} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Tokenizer(io.Discard, dir, TokenizerConfig{})
	if err != nil || r.Failed() != 1 || r.Passed() != 1 {
		t.Errorf("got %v and %+v, want one of two to fail", err, r)
	}
}
