package data

import (
	"runtime"
	"slices"
	"sync"
)

// EncodeConfig configures Encode.
type EncodeConfig struct {
	Tokenizer Tokenizer
	// End is the token after every document; -1 is none.
	End int32
	// Documents configures how files are read.
	Documents DocumentsConfig
}

// Encode returns the documents of files as tokens in memory, for data that need not be stored as shards. It
// uses all cores.
func Encode(paths []string, c EncodeConfig) (*Corpus, error) {
	var texts []string
	for d, err := range Documents(paths, c.Documents) {
		if err != nil {
			return nil, err
		}
		texts = append(texts, d.Text)
	}
	ids := make([][]int32, len(texts))
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(texts); i += workers {
				ids[i] = c.Tokenizer.Encode(texts[i])
				if c.End >= 0 {
					ids[i] = append(slices.Clip(ids[i]), c.End)
				}
				texts[i] = ""
			}
		})
	}
	wait.Wait()
	return NewCorpus(ids...), nil
}

// IsShards reports whether a path is a directory of shards, or the prefix of a shard.
func IsShards(path string) bool {
	shards, err := OpenShards(path)
	for _, s := range shards {
		s.Close()
	}
	return err == nil
}

// OpenCorpus returns the documents of the shards in a directory, or of the shard with a prefix, and a
// function that closes them.
func OpenCorpus(path string) (c *Corpus, close func(), err error) {
	shards, err := OpenShards(path)
	if err != nil {
		return nil, nil, err
	}
	return CorpusOf(shards), func() {
		for _, s := range shards {
			s.Close()
		}
	}, nil
}

// Largest returns the largest token among those that a hash reads: all, or evenly spaced blocks of a long
// source.
func Largest(t TokenSource) int32 {
	largest := int32(-1)
	blocks(t, func(ids []int32) { largest = max(largest, slices.Max(ids)) })
	return largest
}
