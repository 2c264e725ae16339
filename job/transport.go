package job

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/sockets"
	"github.com/galley-ml/galley/internal/strict"
)

// The interface that connects the processes of a job. Package jobtest has the test suite that a Transport
// must pass.
type (
	// Transport carries bytes between processes: short notes in order, and messages identified by number.
	Transport = comm.Transport
	// Message is one end of a transfer of bytes between two processes; Transfer is a set of messages in
	// progress.
	Message  = comm.Message
	Transfer = comm.Transfer
)

// NoteBytes is the maximum size of a note.
const NoteBytes = comm.NoteBytes

// TransportVariable names the transport that Join uses.
const TransportVariable = "GALLEY_TRANSPORT"

// mpiName is the default transport, SocketsName the one that needs no library: galley launch chooses it where
// there is no MPI.
const (
	mpiName     = "mpi"
	SocketsName = "tcp"
)

var transports = struct {
	sync.Mutex
	connect map[string]func() (Transport, error)
}{connect: map[string]func() (Transport, error){
	SocketsName: func() (Transport, error) { return sockets.Open() },
}}

// Register adds a transport from another module. If GALLEY_TRANSPORT has its name, Join calls connect, which
// returns when this process can reach all others. A nil Transport means a single process.
func Register(name string, connect func() (Transport, error)) error {
	transports.Lock()
	defer transports.Unlock()
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }):
		return fmt.Errorf("transport %q: want a name of one word", name)
	case name == mpiName || transports.connect[name] != nil:
		return fmt.Errorf("transport %s: there is a transport of that name", name)
	case connect == nil:
		return fmt.Errorf("transport %s: it has no function that connects", name)
	}
	transports.connect[name] = connect
	return nil
}

// joinNamed joins by the transport of that name.
func joinNamed(name string) (*Job, error) {
	transports.Lock()
	connect := transports.connect[name]
	names := append(slices.Sorted(maps.Keys(transports.connect)), mpiName)
	transports.Unlock()
	if connect == nil {
		return nil, fmt.Errorf("%s=%s: unknown: want one of %s; did you mean %s?", TransportVariable, name,
			strings.Join(names, ", "), strict.Nearest(name, names))
	}
	t, err := connect()
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", TransportVariable, name, err)
	}
	if t == nil || t.Size() == 1 {
		return nil, nil
	}
	if e, ok := t.(*sockets.Engine); ok {
		return Over(t, "galley launch", e.Version())
	}
	return Over(t, TransportVariable, name)
}

// named returns the transport that the environment asks for; empty is MPI.
func named() string {
	if name := os.Getenv(TransportVariable); name != mpiName {
		return name
	}
	return ""
}
