package runfacts

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/kernel"
)

// Program returns what has to be the same in all processes of a job for their numbers to be, besides the
// facts of the run.
func Program(c executor.Config) []data.Fact {
	params := crc32.NewIEEE()
	for _, p := range c.Params {
		fmt.Fprintln(params, p.Name, p.Type, p.Fixed)
	}
	return []data.Fact{
		{Name: "version", Value: version()}, {Name: "binary", Value: fileHash()},
		{Name: "byte order", Value: binaryOrder()}, {Name: "kernels", Value: strings.Join(kernel.Features(), " ")},
		{Name: "strategy", Value: fmt.Sprint(c.Strategy)}, {Name: "mode", Value: fmt.Sprint(c.Mode)},
		{Name: "compute", Value: fmt.Sprint(c.Compute)},
		{Name: "model", Value: fmt.Sprintf("of %d parameters (hash %08x)", len(c.Params), params.Sum32())},
	}
}

// binaryOrder returns how the host's numbers are laid out in memory.
func binaryOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little"
	}
	return "big"
}

// version returns the version of the module, or of the program that uses it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path + " " + info.Main.Version
	}
	return "unknown"
}

// fileHash returns a checksum of the program's file.
func fileHash() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("hash %08x", h.Sum32())
}
