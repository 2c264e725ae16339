package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
)

// A shard is a pair of files in Megatron's format: PREFIX.bin has the tokens of all documents in order,
// PREFIX.idx has where each begins. The index is: nine bytes "MMIDIDX\x00\x00", the version 1 as u64, the
// dtype of tokens as u8, the numbers of sequences and of document bounds as u64, then sizes (i32), offsets in
// bytes (i64) and bounds of documents (i64), all little-endian.
const shardMagic = "MMIDIDX\x00\x00"

// The codes of token dtypes in an index.
const (
	shardI32 = 4
	shardU16 = 8
)

// shardHead is the number of bytes of an index before its lists.
const shardHead = len(shardMagic) + 8 + 1 + 8 + 8

// ShardWriter writes a shard. The files get their names only in Close.
type ShardWriter struct {
	prefix string
	file   *os.File
	out    *bufio.Writer
	width  int
	sizes  []int32
	tokens int64
}

// NewShardWriter starts PREFIX.bin and PREFIX.idx. Tokens of a vocabulary of at most 65,536 take two bytes,
// others four.
func NewShardWriter(prefix string, vocab int) (*ShardWriter, error) {
	f, err := os.Create(prefix + ".bin.part")
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	w := &ShardWriter{prefix: prefix, file: f, out: bufio.NewWriterSize(f, 1<<20), width: 4}
	if vocab <= math.MaxUint16+1 {
		w.width = 2
	}
	return w, nil
}

// Add appends a document.
func (w *ShardWriter) Add(ids []int32) error {
	if len(ids) > math.MaxInt32 {
		return fmt.Errorf("shard: document of %d tokens: want at most %d", len(ids), math.MaxInt32)
	}
	var buf [4]byte
	for _, id := range ids {
		if id < 0 || w.width == 2 && id > math.MaxUint16 {
			return fmt.Errorf("shard: token %d: want 0 to the vocabulary's last", id)
		}
		binary.LittleEndian.PutUint32(buf[:], uint32(id))
		if _, err := w.out.Write(buf[:w.width]); err != nil {
			return fmt.Errorf("shard: %w", err)
		}
	}
	w.sizes = append(w.sizes, int32(len(ids)))
	w.tokens += int64(len(ids))
	return nil
}

// Tokens returns the number of tokens so far.
func (w *ShardWriter) Tokens() int64 { return w.tokens }

// Close writes the index and renames both files, the index last, so that a shard with an index is complete.
func (w *ShardWriter) Close() error {
	err := errors.Join(w.out.Flush(), w.file.Sync(), w.file.Close())
	if err == nil {
		err = w.index()
	}
	if err == nil {
		err = os.Rename(w.prefix+".bin.part", w.prefix+".bin")
	}
	if err == nil {
		err = os.Rename(w.prefix+".idx.part", w.prefix+".idx")
	}
	if err != nil {
		w.Discard()
		return fmt.Errorf("shard: %w", err)
	}
	return nil
}

// Discard deletes an unfinished shard.
func (w *ShardWriter) Discard() {
	w.file.Close()
	os.Remove(w.prefix + ".bin.part")
	os.Remove(w.prefix + ".idx.part")
}

func (w *ShardWriter) index() error {
	f, err := os.Create(w.prefix + ".idx.part")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	kind := byte(shardI32)
	if w.width == 2 {
		kind = shardU16
	}
	n := uint64(len(w.sizes))
	head := append([]byte(shardMagic), 1, 0, 0, 0, 0, 0, 0, 0, kind)
	head = binary.LittleEndian.AppendUint64(head, n)
	head = binary.LittleEndian.AppendUint64(head, n+1)
	out.Write(head)
	var buf [8]byte
	put := func(v int64, size int) {
		binary.LittleEndian.PutUint64(buf[:], uint64(v))
		out.Write(buf[:size])
	}
	for _, s := range w.sizes {
		put(int64(s), 4)
	}
	at := int64(0)
	for _, s := range w.sizes {
		put(at, 8)
		at += int64(s) * int64(w.width)
	}
	for i := range int64(n) + 1 {
		put(i, 8)
	}
	return errors.Join(out.Flush(), f.Sync(), f.Close())
}

// Shard is a memory-mapped shard. It is safe for concurrent use.
type Shard struct {
	prefix string
	bin    mapping
	width  int
	begins []int64 // the first token of each document, and then the total
}

// OpenShard opens PREFIX.bin and PREFIX.idx, Megatron's or those of a ShardWriter, and checks the index
// against them.
func OpenShard(prefix string) (*Shard, error) {
	s, err := openShard(prefix)
	if err != nil {
		return nil, fmt.Errorf("shard: %s: %w", prefix, err)
	}
	return s, nil
}

func openShard(prefix string) (*Shard, error) {
	index, err := openMapping(prefix + ".idx")
	if err != nil {
		return nil, err
	}
	defer index.close()
	s := &Shard{prefix: prefix}
	if s.bin, err = openMapping(prefix + ".bin"); err != nil {
		return nil, err
	}
	if err := s.readIndex(index.bytes); err != nil {
		s.bin.close()
		return nil, err
	}
	return s, nil
}

func (s *Shard) readIndex(raw []byte) error {
	if len(raw) < shardHead || string(raw[:len(shardMagic)]) != shardMagic {
		return errors.New("index: it is no index of Megatron's, or is cut off")
	}
	if v := binary.LittleEndian.Uint64(raw[9:]); v != 1 {
		return fmt.Errorf("index: version: got %d, want 1", v)
	}
	switch kind := raw[17]; kind {
	case shardI32:
		s.width = 4
	case shardU16:
		s.width = 2
	default:
		return fmt.Errorf("index: type of tokens: got %d, want %d (i32) or %d (u16)", kind, shardI32, shardU16)
	}
	n, bounds := binary.LittleEndian.Uint64(raw[18:]), binary.LittleEndian.Uint64(raw[26:])
	if n > 1<<40 || bounds > 1<<40 || uint64(len(raw)) < uint64(shardHead)+12*n+8*bounds {
		return fmt.Errorf("index: it is cut off: %d bytes for %d sequences and %d bounds", len(raw), n, bounds)
	}
	return s.readDocuments(raw[shardHead:], int(n), int(bounds))
}

// readDocuments reads the offsets of documents; a document may be several sequences.
func (s *Shard) readDocuments(raw []byte, n, bounds int) error {
	total := int64(0)
	starts := make([]int64, n+1)
	for i := range n {
		size := int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		place := int64(binary.LittleEndian.Uint64(raw[4*n+8*i:]))
		if size < 0 || place != total*int64(s.width) {
			return fmt.Errorf("index: sequence %d: size %d at byte %d: want one behind the other", i, size, place)
		}
		total += size
		starts[i+1] = total
	}
	if want := total * int64(s.width); int64(len(s.bin.bytes)) != want {
		return fmt.Errorf("tokens: got %d bytes, want %d as the index says", len(s.bin.bytes), want)
	}
	for i := range bounds {
		at := int64(binary.LittleEndian.Uint64(raw[12*n+8*i:]))
		if at < 0 || at > int64(n) || len(s.begins) > 0 && starts[at] < s.begins[len(s.begins)-1] {
			return fmt.Errorf("index: bound %d: got %d, want rising numbers up to %d", i, at, n)
		}
		s.begins = append(s.begins, starts[at])
	}
	if len(s.begins) == 0 || s.begins[0] != 0 || s.begins[len(s.begins)-1] != total {
		return errors.New("index: documents do not hold all sequences")
	}
	return nil
}

// Documents returns the number of documents.
func (s *Shard) Documents() int { return len(s.begins) - 1 }

// Len returns the number of tokens.
func (s *Shard) Len() int { return int(s.begins[len(s.begins)-1]) }

// DocumentLen returns the number of tokens of document i.
func (s *Shard) DocumentLen(i int) int { return int(s.begins[i+1] - s.begins[i]) }

// Document returns the tokens of document i.
func (s *Shard) Document(i int) []int32 {
	ids := make([]int32, s.DocumentLen(i))
	s.Read(ids, int(s.begins[i]))
	return ids
}

// Read fills ids with the tokens from index at on.
func (s *Shard) Read(ids []int32, at int) {
	raw := s.bin.bytes[at*s.width:]
	for i := range ids {
		if s.width == 2 {
			ids[i] = int32(binary.LittleEndian.Uint16(raw[2*i:]))
		} else {
			ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
}

// Close unmaps the files; the shard must not be read afterwards.
func (s *Shard) Close() error { return s.bin.close() }

// Join returns shards as one sequence of tokens, in their order.
func Join(shards ...TokenSource) TokenSource {
	j := joined{sources: shards, begins: []int{0}}
	for _, s := range shards {
		j.begins = append(j.begins, j.begins[len(j.begins)-1]+s.Len())
	}
	return j
}

type joined struct {
	sources []TokenSource
	begins  []int
}

func (j joined) Len() int { return j.begins[len(j.begins)-1] }

func (j joined) Read(ids []int32, at int) {
	k := sort.SearchInts(j.begins, at+1) - 1
	for len(ids) > 0 {
		n := min(len(ids), j.begins[k+1]-at)
		j.sources[k].Read(ids[:n], at-j.begins[k])
		ids, at, k = ids[n:], at+n, k+1
	}
}
