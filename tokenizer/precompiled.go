package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsMap is SentencePiece's precompiled_charsmap: a double-array trie (darts-clone's) from texts to offsets
// in a list of replacements, each of which ends with a zero byte.
type charsMap struct {
	units        []uint32
	replacements string
}

func newCharsMap(encoded string) (*charsMap, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	if len(raw) < 4 {
		return nil, errors.New("precompiled_charsmap: it is cut off")
	}
	size := int(binary.LittleEndian.Uint32(raw))
	raw = raw[4:]
	if size%4 != 0 || size > len(raw) {
		return nil, fmt.Errorf("precompiled_charsmap: trie: got %d bytes, want a multiple of 4 up to %d", size,
			len(raw))
	}
	m := &charsMap{units: make([]uint32, size/4), replacements: string(raw[size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return m, nil
}

// unitOffset returns the offset of a unit's children.
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// find returns the replacement of the shortest text in the trie that is a prefix of key.
func (m *charsMap) find(key string) (string, bool) {
	if len(m.units) == 0 {
		return "", false
	}
	at := unitOffset(m.units[0])
	for i := range len(key) {
		c := uint32(key[i])
		at ^= c
		if c == 0 || int(at) >= len(m.units) || m.units[at]&(1<<31|0xff) != c {
			return "", false
		}
		u := m.units[at]
		at ^= unitOffset(u)
		if u>>8&1 == 1 && int(at) < len(m.units) {
			return m.replacement(m.units[at] &^ (1 << 31))
		}
	}
	return "", false
}

func (m *charsMap) replacement(at uint32) (string, bool) {
	if int(at) > len(m.replacements) {
		return "", false
	}
	text, _, _ := strings.Cut(m.replacements[at:], "\x00")
	return text, true
}

// normalize replaces short grapheme clusters as a whole if the map has them, and other characters one by
// one.
func (m *charsMap) normalize(a aligned) aligned {
	e := edit(a)
	at, state := 0, -1
	for at < len(a.text) {
		var cluster string
		cluster, _, _, state = uniseg.FirstGraphemeClusterInString(a.text[at:], state)
		if to, ok := m.find(cluster); ok && len(cluster) < 6 {
			m.put(e, to, cluster, at)
		} else {
			m.runes(e, cluster, at)
		}
		at += len(cluster)
	}
	return e.done()
}

func (m *charsMap) runes(e *editor, cluster string, at int) {
	for i := 0; i < len(cluster); {
		_, size := utf8.DecodeRuneInString(cluster[i:])
		if to, ok := m.find(cluster[i : i+size]); ok {
			m.put(e, to, cluster[i:i+size], at+i)
		} else {
			e.keep(at+i, at+i+size)
		}
		i += size
	}
}

// put writes to in place of old, character for character; the origin of further ones is old's last.
func (m *charsMap) put(e *editor, to, old string, at int) {
	last, next := 0, 0
	for _, r := range to {
		if next < len(old) {
			_, size := utf8.DecodeRuneInString(old[next:])
			last, next = next, next+size
		}
		e.put(string(r), at+last)
	}
}
