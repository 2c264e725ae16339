package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// parseManifest parses a manifest's text and checks all that can be checked without the files. It accepts
// only the exact text that encode returns, so any changed byte is detected.
func parseManifest(text []byte) (*manifest, error) {
	m, err := parseShare(text)
	if err != nil {
		return nil, err
	}
	return m, m.check()
}

// parseShare is like parseManifest for one that need not cover every tensor.
func parseShare(text []byte) (*manifest, error) {
	m, err := decodeManifest(text)
	if err != nil {
		return nil, err
	}
	again, err := m.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, m.difference(text, again)
	}
	return m, nil
}

func decodeManifest(text []byte) (*manifest, error) {
	if err := checkVersion(text); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	m := &manifest{}
	return m, dec.Decode(m)
}

// checkVersion checks the first fields only, so that a later version is reported as such and not as corrupt.
func checkVersion(text []byte) error {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Format != formatName {
		return fmt.Errorf("format: got %q, want %q", head.Format, formatName)
	}
	if head.Version != formatVersion {
		return fmt.Errorf("version: got %d, want %d: read it with the release that wrote it", head.Version,
			formatVersion)
	}
	return nil
}

func (m *manifest) difference(text, again []byte) error {
	if !bytes.Contains(again, []byte(fmt.Sprintf("%q: %q", "checksum", m.Checksum))) {
		return fmt.Errorf("checksum: got %q, which is not that of the text", m.Checksum)
	}
	n := 0
	for n < min(len(text), len(again)) && text[n] == again[n] {
		n++
	}
	return fmt.Errorf("byte %d is not as it was written", n)
}

func (m *manifest) check() error {
	if err := m.meta().check(); err != nil {
		return err
	}
	files, last := map[string]bool{}, -1
	for _, f := range m.Files {
		if err := f.check(last); err != nil {
			return fmt.Errorf("file %q: %w", f.Name, err)
		}
		files[f.Name], last = true, f.Device
	}
	names, places := map[string]bool{}, map[[2]string]bool{}
	for _, t := range m.Tensors {
		if err := checkName("tensor", t.Name, names); err != nil {
			return err
		}
		if err := t.check(files, places); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// check returns an error for a file that does not belong to the checkpoint, or precedes that of a lower
// device.
func (f fileEntry) check(last int) error {
	switch {
	case f.Device <= last:
		return fmt.Errorf("device: got %d after %d, want rising numbers", f.Device, last)
	case !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, `/\`) || f.Name != fileName(f.Device):
		return fmt.Errorf("name: want %q", fileName(f.Device))
	case f.Bytes < 0:
		return fmt.Errorf("bytes: got %d, want at least 0", f.Bytes)
	}
	return nil
}

func (t tensorEntry) check(files map[string]bool, places map[[2]string]bool) error {
	if err := checkType(ir.Type{DType: t.DType, Shape: t.Shape}); err != nil {
		return err
	}
	var boxes []mesh.Box
	for _, p := range t.Parts {
		if err := checkBox(t.Shape, p.box()); err != nil {
			return err
		}
		place := [2]string{p.File, p.Key}
		switch {
		case p.box().Empty():
			return fmt.Errorf("box %v: got an empty one, want none", p.box())
		case !files[p.File]:
			return fmt.Errorf("box %v: no file %q in the list of files", p.box(), p.File)
		case places[place]:
			return fmt.Errorf("box %v: %q of %s is there twice", p.box(), p.Key, p.File)
		}
		places[place] = true
		boxes = append(boxes, p.box())
	}
	return checkTiling(t.Shape, boxes)
}
