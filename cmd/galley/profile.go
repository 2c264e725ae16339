package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/galley-ml/galley/internal/mpi"
)

// profileVariable names a directory for profiles of a command, for go tool pprof: cpu, and heap at its
// largest; process N of a job writes cpu.N and heap.N.
const profileVariable = "GALLEY_PROFILE"

// profile starts the profiles that the environment requests; stop ends them.
func profile() (stop func(), err error) {
	dir := os.Getenv(profileVariable)
	if dir == "" {
		return func() {}, nil
	}
	which := ""
	if launched, ok := mpi.Launched(); ok {
		which = fmt.Sprintf(".%d", launched.Rank)
	}
	name := func(kind string) string { return filepath.Join(dir, kind+which) }
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%s: %w", profileVariable, err)
	}
	f, err := os.Create(name("cpu"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", profileVariable, err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("%s: %w", profileVariable, err)
	}
	ended := make(chan struct{})
	go heapProfiles(name("heap"), ended)
	return func() {
		close(ended)
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// heapProfiles writes a heap profile whenever the heap is a tenth larger than at the last one.
func heapProfiles(path string, ended <-chan struct{}) {
	var most uint64
	for {
		select {
		case <-ended:
			return
		case <-time.After(20 * time.Millisecond):
		}
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapInuse < most+most/10 {
			continue
		}
		most = m.HeapInuse
		if f, err := os.Create(path); err == nil {
			_ = pprof.Lookup("heap").WriteTo(f, 0)
			f.Close()
		}
	}
}
