package checkpoint

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/galley-ml/galley/internal/kernel"
)

// castagnoli is CRC-32C, which processors compute as fast as they read memory.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(crc uint32) string { return fmt.Sprintf("crc32c:%08x", crc) }

// checksumOf reads r to its end.
func checksumOf(r io.Reader) (string, error) {
	h := crc32.New(castagnoli)
	if _, err := io.CopyBuffer(h, r, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return checksum(h.Sum32()), nil
}

// chunkBytes is the number of bytes that are checksummed and written at a time: small enough that they are
// still in cache for the second, and that progress is visible.
const chunkBytes = 1 << 18

// meter passes writes on in chunks; it counts and checksums them and reports each.
type meter struct {
	w     io.Writer
	crc   uint32
	bytes int64
	tell  func(n int) error
}

func (m *meter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		chunk := p[done:min(len(p), done+chunkBytes)]
		m.crc = crc32.Update(m.crc, castagnoli, chunk)
		n, err := m.w.Write(chunk)
		done += n
		m.bytes += int64(n)
		if err != nil {
			return done, err
		}
		if err := m.tell(n); err != nil {
			return done, err
		}
	}
	return done, nil
}

// summed fills a file from its beginning to its end, and checksums what it has written while that is in
// cache.
type summed struct {
	bytes []byte
	at    int64
	crc   uint32
}

// to checksums what the file holds up to an offset.
func (f *summed) to(offset int64) {
	f.crc = crc32.Update(f.crc, castagnoli, f.bytes[f.at:offset])
	f.at = offset
}

// copy writes what comes next.
func (f *summed) copy(from []byte) {
	f.crc = kernel.CopySum(f.bytes[f.at:], from, f.crc)
	f.at += int64(len(from))
}
