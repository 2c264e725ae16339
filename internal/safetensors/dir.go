package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/strict"
)

// The names that Hugging Face's directories use.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// Dir is the weights of an open Hugging Face directory: one file, or the shards that an index lists.
type Dir struct {
	path   string
	shards []*File
	names  []string
	where  map[string]*File
}

// OpenDir opens the weights of a Hugging Face directory: model.safetensors, or else the shards that
// model.safetensors.index.json lists. Of a shard, only the tensors that the index gives to it are seen.
func OpenDir(dir string) (*Dir, error) {
	single := filepath.Join(dir, singleName)
	f, err := Open(single)
	if err == nil {
		return dirOf(dir, f), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	index := filepath.Join(dir, indexName)
	text, err := strict.ReadFile(index, 4*strict.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %s: no weights: want %s or %s: %w", dir, singleName, indexName,
			fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	shards, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", index, err)
	}
	d, err := openShards(dir, shards)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", index, err)
	}
	return d, nil
}

func dirOf(path string, f *File) *Dir {
	d := &Dir{path: path, shards: []*File{f}, names: f.Names(), where: map[string]*File{}}
	for _, name := range d.names {
		d.where[name] = f
	}
	return d
}

// parseIndex reads an index's weight_map as the set of tensors of each shard.
func parseIndex(text []byte) (map[string]map[string]bool, error) {
	var raw struct {
		WeightMap json.RawMessage `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	if raw.WeightMap == nil {
		return nil, errors.New("no weight_map")
	}
	shards := map[string]map[string]bool{}
	err := eachField(raw.WeightMap, func(tensor string, dec *json.Decoder) error {
		var shard string
		if err := dec.Decode(&shard); err != nil {
			return err
		}
		if !isPlainName(shard) {
			return fmt.Errorf("tensor %q: shard: got %q, want a plain file name", tensor, shard)
		}
		if shards[shard] == nil {
			shards[shard] = map[string]bool{}
		}
		shards[shard][tensor] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("weight_map: %w", err)
	}
	if len(shards) == 0 {
		return nil, errors.New("weight_map: empty")
	}
	return shards, nil
}

// isPlainName reports whether name is that of a file within a directory. An os.Root would be stricter than is
// wanted: in Hugging Face's own cache, each shard is a link to a file outside of the directory.
func isPlainName(name string) bool {
	return filepath.IsLocal(name) && name != "." && !strings.ContainsAny(name, "/\\:\x00")
}

func openShards(dir string, shards map[string]map[string]bool) (*Dir, error) {
	d := &Dir{path: dir, where: map[string]*File{}}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := d.addShard(shard, shards[shard]); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

func (d *Dir) addShard(shard string, tensors map[string]bool) error {
	f, err := Open(filepath.Join(d.path, shard))
	if err != nil {
		return err
	}
	d.shards = append(d.shards, f)
	for _, name := range f.Names() {
		if tensors[name] {
			d.names = append(d.names, name)
			d.where[name] = f
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if d.where[name] != f {
			return fmt.Errorf("tensor %q: not in its shard %s", name, shard)
		}
	}
	return nil
}

// Names lists the tensors, shard by shard, in the order of their bytes.
func (d *Dir) Names() []string { return slices.Clone(d.names) }

// Type returns a tensor's dtype and shape; see Source.
func (d *Dir) Type(name string) (array.DType, array.Shape, bool) {
	f, ok := d.where[name]
	if !ok {
		return array.Invalid, nil, false
	}
	return f.Type(name)
}

// Metadata returns the first shard's: writers give every shard the same.
func (d *Dir) Metadata() map[string]string { return d.shards[0].Metadata() }

// Read reads a whole tensor.
func (d *Dir) Read(name string) (array.Array, error) {
	f, err := d.file(name)
	if err != nil {
		return array.Array{}, err
	}
	return f.Read(name)
}

// ReadRange reads the rows of a tensor from lo up to hi.
func (d *Dir) ReadRange(name string, lo, hi int) (array.Array, error) {
	f, err := d.file(name)
	if err != nil {
		return array.Array{}, err
	}
	return f.ReadRange(name, lo, hi)
}

func (d *Dir) file(name string) (*File, error) {
	f, ok := d.where[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: %s: no tensor %q among %d", d.path, name, len(d.names))
	}
	return f, nil
}

// Close closes every shard.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.shards {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
