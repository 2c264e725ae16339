package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

const (
	formatName    = "galley checkpoint"
	formatVersion = 1
	manifestName  = "manifest.json"
)

// manifest describes a checkpoint. Its text is a function of its content, byte for byte.
type manifest struct {
	Format   string        `json:"format"`
	Version  int           `json:"version"`
	Step     int64         `json:"step"`
	Sample   int64         `json:"sample"`
	Seed     uint64        `json:"seed,string"`
	RNG      []Counter     `json:"rng"`
	Scalars  []Scalar      `json:"scalars"`
	Files    []fileEntry   `json:"files"`
	Tensors  []tensorEntry `json:"tensors"`
	Checksum string        `json:"checksum"`
}

// fileEntry is one data file.
type fileEntry struct {
	Name     string `json:"name"`
	Device   int    `json:"device"`
	Bytes    int64  `json:"bytes"`
	Checksum string `json:"checksum"`
}

// tensorEntry is one logical tensor.
type tensorEntry struct {
	Name  string      `json:"name"`
	DType array.DType `json:"dtype"`
	Shape array.Shape `json:"shape"`
	Parts []partEntry `json:"parts"`
}

// partEntry is a box of a tensor and its location: the tensor called Key of a file.
type partEntry struct {
	Start []int  `json:"start"`
	Size  []int  `json:"size"`
	File  string `json:"file"`
	Key   string `json:"key"`
}

func (p partEntry) box() mesh.Box { return mesh.Box{Start: p.Start, Size: p.Size} }

func (m *manifest) meta() Meta {
	return Meta{Step: m.Step, Sample: m.Sample, Seed: m.Seed, RNG: slices.Clone(m.RNG),
		Scalars: slices.Clone(m.Scalars)}
}

func fileName(device int) string { return fmt.Sprintf("device-%05d.safetensors", device) }

// newManifest returns the plan's manifest, before the files are written.
func (p *plan) newManifest(meta Meta) manifest {
	m := manifest{Format: formatName, Version: formatVersion, Step: meta.Step, Sample: meta.Sample,
		Seed: meta.Seed,
		RNG:  slices.Clone(meta.RNG), Scalars: slices.Clone(meta.Scalars)}
	for _, d := range p.devices {
		m.Files = append(m.Files, fileEntry{Name: fileName(d), Device: d})
	}
	for _, t := range p.tensors {
		m.Tensors = append(m.Tensors, tensorEntry{Name: t.Name, DType: t.Type.DType, Shape: t.Type.Shape.Clone()})
	}
	for i, pc := range p.pieces {
		t := &m.Tensors[pc.tensor]
		t.Parts = append(t.Parts, partEntry{Start: slices.Clone(pc.box.Start), Size: slices.Clone(pc.box.Size),
			File: fileName(p.device(i)), Key: pc.key})
	}
	return m
}

// encode returns the manifest's text, whose last field is the checksum of everything before it. Lists have an
// entry per line, so that a person can read and diff it.
func (m *manifest) encode() ([]byte, error) {
	list, err := m.tensorsText()
	if err != nil {
		return nil, err
	}
	return m.encodeWith(list)
}

// tensorsText returns the field of tensors.
func (m *manifest) tensorsText() ([]byte, error) {
	w := manifestWriter{}
	w.WriteByte('\n')
	writeList(&w, "tensors", m.Tensors, (*manifestWriter).tensor)
	return w.Bytes()[1:], w.err
}

// encodeWith is like encode with the field of tensors already encoded.
func (m *manifest) encodeWith(tensors []byte) ([]byte, error) {
	w := manifestWriter{}
	w.Grow(len(tensors) + 1<<10)
	w.field("format", m.Format)
	w.field("version", m.Version)
	w.field("step", m.Step)
	w.field("sample", m.Sample)
	w.field("seed", fmt.Sprint(m.Seed))
	writeList(&w, "rng", m.RNG, (*manifestWriter).value)
	writeList(&w, "scalars", m.Scalars, (*manifestWriter).value)
	writeList(&w, "files", m.Files, (*manifestWriter).value)
	w.Write(tensors)
	w.WriteByte('\n')
	sum := checksum(crc32.Checksum(w.Bytes(), castagnoli))
	fmt.Fprintf(&w.Buffer, " \"checksum\": %q\n}\n", sum)
	return w.Bytes(), w.err
}

type manifestWriter struct {
	bytes.Buffer
	err error
}

// key begins a field. Every field but the first is preceded by the newline that ends the one before.
func (w *manifestWriter) key(name string) {
	sep := "\n"
	if w.Len() == 0 {
		sep = "{\n"
	}
	fmt.Fprintf(&w.Buffer, "%s %q: ", sep, name)
}

func (w *manifestWriter) field(name string, v any) {
	w.key(name)
	w.value(v)
	w.WriteByte(',')
}

// value writes v in one line, without the escapes for HTML that encoding/json adds.
func (w *manifestWriter) value(v any) {
	enc := json.NewEncoder(&w.Buffer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		w.err = err
		return
	}
	w.Truncate(w.Len() - 1) // the newline that Encode adds
}

func writeList[T any](w *manifestWriter, name string, list []T, one func(*manifestWriter, any)) {
	w.key(name)
	w.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString("\n  ")
		one(w, v)
	}
	if len(list) > 0 {
		w.WriteString("\n ")
	}
	w.WriteString("],")
}

// tensor writes a tensor's head in one line and each of its parts in another.
func (w *manifestWriter) tensor(v any) {
	t := v.(tensorEntry)
	w.WriteString(`{"name":`)
	w.value(t.Name)
	w.WriteString(`,"dtype":`)
	w.value(t.DType)
	w.WriteString(`,"shape":`)
	w.value(append([]int{}, t.Shape...)) // a scalar's is [], not null
	w.WriteString(`,"parts":[`)
	for i, p := range t.Parts {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString("\n   ")
		p.Start, p.Size = append([]int{}, p.Start...), append([]int{}, p.Size...)
		w.value(p)
	}
	w.WriteString("]}")
}
