package parquet_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/data"
	read "github.com/galley-ml/galley/data/parquet"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

var formats = map[string]data.Format{".parquet": read.Read}

type parquetRow struct {
	ID   int64   `parquet:"id"`
	Text *string `parquet:"text,optional"`
	Tags []string
}

// parquetFile returns a file of n rows, every seventh without a text, in row groups of 100.
func parquetFile(t testing.TB, n int, codec compress.Codec) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b, parquet.Compression(codec), parquet.MaxRowsPerRowGroup(100))
	for i := range n {
		row := parquetRow{ID: int64(i), Tags: []string{"a", "b"}}
		if i%7 != 6 {
			text := fmt.Sprintf("text %d, Grüße", i)
			row.Text = &text
		}
		if _, err := w.Write([]parquetRow{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAllDocuments returns the documents of a file, those that were skipped, and the error that ended them.
func readAllDocuments(path string, c data.DocumentsConfig) (docs []data.Document, skipped int, err error) {
	c.Formats = formats
	if c.Skip != nil {
		c.Skip = func(error) { skipped++ }
	}
	for d, err := range data.Documents([]string{path}, c) {
		if err != nil {
			return docs, skipped, err
		}
		docs = append(docs, d)
	}
	return docs, skipped, nil
}

// TestParquet: rows come in order with their places, whatever packs the pages; those without a text are
// counted, or end it; and what is no column of texts is named.
func TestParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	skip := data.DocumentsConfig{Skip: func(error) {}}
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip,
		&parquet.Zstd} {
		if err := os.WriteFile(path, parquetFile(t, 250, codec), 0o666); err != nil {
			t.Fatal(err)
		}
		docs, skipped, err := readAllDocuments(path, skip)
		if err != nil || len(docs) != 215 || skipped != 35 {
			t.Fatalf("%v: got %d documents, %d skipped, %v", codec, len(docs), skipped, err)
		}
		if d := docs[214]; d.Text != "text 249, Grüße" || !strings.HasSuffix(d.Place, "a.parquet:250") {
			t.Errorf("%v: got %+v", codec, d)
		}
	}
	for _, test := range []struct {
		config data.DocumentsConfig
		want   string
	}{
		{data.DocumentsConfig{}, `a.parquet:7: column "text" is null`}, {data.DocumentsConfig{Field: "body"},
			`no column "body": it has [id text Tags]`},
		{data.DocumentsConfig{Field: "id"}, `column "id" is of`}, {data.DocumentsConfig{Field: "Tags"}, "lists"},
	} {
		if _, _, err := readAllDocuments(path, test.config); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q in it", test.config, err, test.want)
		}
	}
}

// TestParquetPanicPasses: a panic of whoever takes documents is not one of the file.
func TestParquetPanicPasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(path, parquetFile(t, 3, &parquet.Snappy), 0o666); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("got panic %v", r)
		}
	}()
	for range data.Documents([]string{path}, data.DocumentsConfig{Formats: formats}) {
		panic("mine")
	}
}

// FuzzParquet: a damaged file is an error or is read, and never ends the process.
func FuzzParquet(f *testing.F) {
	whole := parquetFile(f, 20, &parquet.Snappy)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("PAR1PAR1"))
	for i := range 8 {
		bad := bytes.Clone(whole)
		bad[len(bad)*(i+1)/9] ^= 0x55
		f.Add(bad)
	}
	path := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		docs, _, err := readAllDocuments(path, data.DocumentsConfig{Skip: func(error) {}})
		if err == nil && len(docs) > len(raw) {
			t.Errorf("%d documents of %d bytes", len(docs), len(raw))
		}
	})
}
