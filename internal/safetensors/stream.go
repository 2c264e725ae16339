package safetensors

import (
	"fmt"
	"io"
)

// Encode writes tensors and metadata, which may be nil, to w as the bytes that Write would put into a file.
// It is for writers that have files of their own to keep; durability is theirs.
func Encode(w io.Writer, tensors []Named, metadata map[string]string) error {
	if err := checkTypes(typesOf(tensors)); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	tensors = laidOut(tensors, Named.typed)
	text, err := encodeHeader(typesOf(tensors), metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return writeTensors(w, text, tensors)
}

// Section returns the bytes of a tensor where they are in the file, for readers that want parts other than
// rows.
func (f *File) Section(name string) (*io.SectionReader, error) {
	e, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f.r, f.header.data+e.begin, e.end-e.begin), nil
}
