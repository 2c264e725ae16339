package safetensors

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/google/go-cmp/cmp"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteBadTensors(t *testing.T) {
	one := array.Scalar(float32(1))
	dir := t.TempDir()
	for _, test := range []struct {
		want    string
		tensors []Named
	}{
		{`two tensors named "a"`, []Named{{"a", one}, {"a", one}}},
		{"the format's own", []Named{{"__metadata__", one}}},
		{"not UTF-8", []Named{{"\xff", one}}},
		{"dtype invalid is not supported", []Named{{"a", array.Array{}}}},
	} {
		wantError(t, Write(filepath.Join(dir, "x"), test.tensors, nil), test.want, dir)
		wantError(t, WriteDir(dir, test.tensors, 0, nil), test.want, dir)
	}
	if got := files(t, dir); got != nil {
		t.Errorf("left behind: %v", got)
	}
}

func TestWriteMissingDir(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "none", "x"), samples(), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestWriteReadOnlyDir(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o777)
	if err := Write(filepath.Join(dir, "x"), samples(), nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
}

// TestFullDisk fails a write at each of several lengths, over a file that must survive.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 10, 3 * bufferBytes} {
		_, err := stage(path, func(w io.Writer) error {
			if _, err := w.Write(make([]byte, n)); err != nil {
				return err
			}
			return syscall.ENOSPC
		})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("after %d bytes: got %v, want %v", n, err, syscall.ENOSPC)
		}
		wantError(t, err, path)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"x"}) {
		t.Errorf("left behind: %v", got)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("old file: got %q", got)
	}
}

// TestRenameFails has a directory where the file should be.
func TestRenameFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, singleName), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, singleName), samples(), nil); err == nil {
		t.Error("written over a directory")
	}
	if err := WriteDir(dir, samples(), 0, nil); err == nil {
		t.Error("written over a directory")
	}
	if got := files(t, dir); !slices.Equal(got, []string{singleName}) {
		t.Errorf("left behind: %v", got)
	}
}

func TestWriteReplaces(t *testing.T) {
	path := write(t, samples(), nil)
	want := samples()[:1]
	if err := Write(path, want, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checkRead(t, f, want)
}

func TestCut(t *testing.T) {
	sized := func(n int) Named { return Named{Array: array.New(array.U8, n)} }
	for _, test := range []struct {
		limit int64
		sizes []int
		want  []int // tensors of each shard
	}{
		{0, []int{5, 5, 5}, []int{3}},
		{15, []int{5, 5, 5}, []int{3}},
		{14, []int{5, 5, 5}, []int{2, 1}},
		{5, []int{5, 5, 5}, []int{1, 1, 1}},
		{1, []int{5, 5, 0, 0}, []int{1, 1, 2}},
		{10, []int{20, 1, 9, 1}, []int{1, 2, 1}},
		{10, nil, []int{0}},
	} {
		var tensors []Named
		for _, n := range test.sizes {
			tensors = append(tensors, sized(n))
		}
		var got []int
		for _, shard := range cut(typesOf(tensors), test.limit) {
			got = append(got, len(shard))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v by %d (-want +got):\n%s", test.sizes, test.limit, diff)
		}
	}
}
