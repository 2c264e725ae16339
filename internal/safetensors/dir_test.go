package safetensors

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/google/go-cmp/cmp"
)

var threeShards = []string{
	"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
}

func threeTensors() []Named {
	return []Named{
		{"c", array.FromSlice([]float32{1, 2}, 2)},
		{"b", array.FromSlice([]int64{3}, 1)},
		{"a", array.FromSlice([]uint8{4, 5, 6}, 3)},
	}
}

func writeDir(t *testing.T, dir string, limit int64) {
	t.Helper()
	if err := WriteDir(dir, threeTensors(), limit, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
}

func checkDir(t *testing.T, dir string, want []Named) {
	t.Helper()
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	checkRead(t, d, want)
	if got := d.Metadata()["format"]; got != "pt" {
		t.Errorf("metadata: got %q, want pt", got)
	}
}

func TestWriteDirSharded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	writeDir(t, dir, 8)
	checkDir(t, dir, threeTensors())
	if diff := cmp.Diff(append(slices.Clone(threeShards), indexName), files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	text, _ := os.ReadFile(filepath.Join(dir, indexName))
	var got, want any
	json.Unmarshal(text, &got)
	json.Unmarshal([]byte(`{"metadata": {"total_size": 19}, "weight_map": {
		"a": "model-00003-of-00003.safetensors",
		"b": "model-00002-of-00003.safetensors",
		"c": "model-00001-of-00003.safetensors"}}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
}

// TestWriteDirAgain changes the number of shards in place; the files of the earlier write must not be seen.
func TestWriteDirAgain(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o666)
	for _, test := range []struct {
		limit int64
		want  []string
	}{
		{0, []string{"config.json", singleName}},
		{8, append([]string{"config.json"}, append(slices.Clone(threeShards), indexName)...)},
		{16, []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
			indexName}},
		{100, []string{"config.json", singleName}},
	} {
		writeDir(t, dir, test.limit)
		checkDir(t, dir, threeTensors())
		if diff := cmp.Diff(test.want, files(t, dir)); diff != "" {
			t.Errorf("limit %d: files (-want +got):\n%s", test.limit, diff)
		}
	}
}

func TestOpenDirErrors(t *testing.T) {
	sharded := func(t *testing.T) string {
		dir := t.TempDir()
		writeDir(t, dir, 8)
		return dir
	}
	t.Run("nothing there", func(t *testing.T) {
		dir := t.TempDir()
		_, err := OpenDir(dir)
		wantError(t, err, dir, singleName, indexName)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want %v", err, fs.ErrNotExist)
		}
	})
	t.Run("missing shard", func(t *testing.T) {
		dir := sharded(t)
		os.Remove(filepath.Join(dir, threeShards[1]))
		_, err := OpenDir(dir)
		wantError(t, err, indexName, threeShards[1], "no such file")
	})
	t.Run("torn shard", func(t *testing.T) {
		dir := sharded(t)
		os.Truncate(filepath.Join(dir, threeShards[1]), 70)
		_, err := OpenDir(dir)
		wantError(t, err, indexName, threeShards[1], "cut short")
	})
	t.Run("missing tensor", func(t *testing.T) {
		dir := sharded(t)
		if err := Write(filepath.Join(dir, threeShards[1]), threeTensors()[2:], nil); err != nil {
			t.Fatal(err)
		}
		_, err := OpenDir(dir)
		wantError(t, err, indexName, `tensor "b"`, threeShards[1])
	})
	t.Run("unknown tensor", func(t *testing.T) {
		d, err := OpenDir(sharded(t))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.Read("none")
		wantError(t, err, `no tensor "none" among 3`)
		_, err = d.ReadRange("none", 0, 1)
		wantError(t, err, `no tensor "none" among 3`)
		if _, _, ok := d.Type("none"); ok {
			t.Error("a tensor that is not there has a type")
		}
	})
}

func TestBadIndex(t *testing.T) {
	for _, test := range []struct{ index, want string }{
		{``, "unexpected end"},
		{`{}`, "no weight_map"},
		{`{"weight_map":{}}`, "empty"},
		{`{"weight_map":[]}`, "want an object"},
		{`{"weight_map":{"a":1}}`, "weight_map"},
		{`{"weight_map":{"a":"x","a":"y"}}`, "two fields"},
		{`{"weight_map":{"a":"../x"}}`, "want a plain file name"},
		{`{"weight_map":{"a":"/x"}}`, "want a plain file name"},
		{`{"weight_map":{"a":"d/x"}}`, "want a plain file name"},
		{`{"weight_map":{"a":"d\\x"}}`, "want a plain file name"},
		{`{"weight_map":{"a":".."}}`, "want a plain file name"},
		{`{"weight_map":{"a":"."}}`, "want a plain file name"},
		{`{"weight_map":{"a":""}}`, "want a plain file name"},
		{`{"weight_map":{"a":null}}`, "want a plain file name"},
	} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, indexName), []byte(test.index), 0o666)
		_, err := OpenDir(dir)
		wantError(t, err, dir, indexName, test.want)
	}
}

// TestOpenDirLinks opens shards that are links, as they are in Hugging Face's cache.
func TestOpenDirLinks(t *testing.T) {
	blobs, dir := t.TempDir(), t.TempDir()
	writeDir(t, blobs, 8)
	for _, name := range files(t, blobs) {
		if err := os.Symlink(filepath.Join(blobs, name), filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	checkDir(t, dir, threeTensors())
}
