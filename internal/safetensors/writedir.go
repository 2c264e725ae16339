package safetensors

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// WriteDir writes tensors as a Hugging Face directory, made if need be: one model.safetensors, or, where that
// would hold more than maxShardBytes of tensors, shards with an index. Shards take tensors in the order
// given; a tensor larger than the limit has a shard of its own. A limit of 0 is none.
//
// Every file is whole on disk before the first gets its name, the index gets its name last, and weights of an
// earlier write that the new ones do not replace are removed after that. On an error before that point the
// directory is as it was.
func WriteDir(dir string, tensors []Named, maxShardBytes int64, metadata map[string]string) error {
	return StreamDir(dir, typesOf(tensors), maxShardBytes, metadata, func(put func(Named) error) error {
		for _, t := range tensors {
			if err := put(t); err != nil {
				return err
			}
		}
		return nil
	})
}

// StreamDir is WriteDir of tensors that come one after the other, in any order, so that not all of them are
// in memory at once: fill puts each of them once.
func StreamDir(dir string, tensors []Typed, maxShardBytes int64, metadata map[string]string,
	fill func(put func(t Named) error) error) error {
	if err := checkTypes(tensors); err != nil {
		return fmt.Errorf("safetensors: %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	files, err := stageShards(dir, cut(tensors, maxShardBytes), metadata, fill)
	if err == nil {
		err = commit(files)
	}
	if err == nil {
		err = removeStale(dir, files)
	}
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// cut splits tensors into shards of at most limit bytes, if limit is positive. There is always one shard.
func cut(tensors []Typed, limit int64) [][]Typed {
	var shards [][]Typed
	var start int
	var size int64
	for i, t := range tensors {
		n := int64(t.size())
		if limit > 0 && i > start && size+n > limit {
			shards = append(shards, tensors[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(shards, tensors[start:])
}

// stageShards stages the files of a directory, the index last.
func stageShards(dir string, shards [][]Typed, metadata map[string]string,
	fill func(put func(t Named) error) error) ([]pending, error) {
	s := &stream{places: map[string]place{}}
	for i, tensors := range shards {
		if err := s.open(filepath.Join(dir, shardName(i, len(shards))), tensors, metadata); err != nil {
			return nil, s.drop(err)
		}
	}
	if err := fill(s.put); err != nil {
		return nil, s.drop(err)
	}
	files, err := s.close()
	if err != nil || len(shards) == 1 {
		return files, err
	}
	p, err := stage(filepath.Join(dir, indexName), func(w io.Writer) error { return writeIndex(w, shards) })
	if err != nil {
		discard(files)
		return nil, err
	}
	return append(files, p), nil
}

func shardName(i, n int) string {
	if n == 1 {
		return singleName
	}
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n)
}

func writeIndex(w io.Writer, shards [][]Typed) error {
	var index struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	index.WeightMap = map[string]string{}
	for i, tensors := range shards {
		for _, t := range tensors {
			index.WeightMap[t.Name] = shardName(i, len(shards))
			index.Metadata.TotalSize += int64(t.size())
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(index)
}

var weightName = regexp.MustCompile(`^model(-\d{5,}-of-\d{5,})?\.safetensors(\.index\.json)?$`)

// removeStale removes weights that are not among files: an old model.safetensors would hide new shards.
func removeStale(dir string, files []pending) error {
	fresh := map[string]bool{}
	for _, p := range files {
		fresh[filepath.Base(p.path)] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !weightName.MatchString(e.Name()) || fresh[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
