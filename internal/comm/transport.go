package comm

// NoteBytes is the most that a note may have.
const NoteBytes = 32 << 10

// Transport carries bytes between the processes of a job: all that a world of several processes asks of an
// engine. Its calls never wait for a peer, so any goroutine may make them.
type Transport interface {
	// Rank returns this process's place among Size.
	Rank() int
	Size() int
	// Listen says who gets the notes of the other processes: those of each sender in order. It is called once,
	// before all else. An error means that the process it is from is lost. f does not wait for anything.
	Listen(f func(from int, note []byte, err error))
	// Post sends a note of at most NoteBytes, which is copied.
	Post(to int, note []byte)
	// Start begins to send and receive. The messages' memory belongs to the transfer until it is over.
	Start(messages []Message) Transfer
	// Drive does the engine's work until one of the channels is closed, or leaves it to another goroutine that
	// does. The second may be nil. Work goes on slowly while nobody drives.
	Drive(until, stop <-chan struct{})
	// Close ends the engine when all processes have called it.
	Close() error
}

// Message is one end of bytes that go from one process to another: it meets the other end of the same number
// between the same two processes.
type Message struct {
	Peer   int
	Number uint32
	Send   bool
	Data   []byte
}

// Transfer is messages under way.
type Transfer interface {
	// Done is closed when all of them are over.
	Done() <-chan struct{}
	// Err returns what went wrong, once it is done.
	Err() error
}
