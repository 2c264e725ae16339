package check

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestTokenizer(t *testing.T) {
	for _, kind := range []string{"bytelevel", "llama", "unigram", "wordpiece"} {
		r, err := Tokenizer(io.Discard, "../../tokenizer/testdata/"+kind, TokenizerConfig{})
		if err != nil || r.Failed() > 0 || r.Passed() == 0 {
			t.Errorf("%s: %v, %+v", kind, err, r)
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
