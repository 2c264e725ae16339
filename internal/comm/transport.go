package comm

// NoteBytes is the maximum size of a note, a short control message between processes.
const NoteBytes = 32 << 10

// Transport carries bytes between the processes of a job: all that a multi-process world needs from an
// engine. Its calls never wait for a peer, so any goroutine may make them.
type Transport interface {
	// Rank returns this process's number, below Size.
	Rank() int
	Size() int
	// Listen registers the function that receives the notes of other processes, each sender's in order. It is
	// called once, before everything else. An error means that its process is lost. f must not block.
	Listen(f func(from int, note []byte, err error))
	// Post sends a note of at most NoteBytes, which is copied.
	Post(to int, note []byte)
	// Start starts sending and receiving. The messages' memory must not be used until the transfer is done.
	Start(messages []Message) Transfer
	// Drive does the engine's work until one of the channels is closed, or waits while another goroutine does
	// it. stop may be nil. Work advances slowly while no goroutine drives.
	Drive(until, stop <-chan struct{})
	// Close shuts the engine down when all processes have called it.
	Close() error
}

// Message is one side of a transfer from one process to another. It is matched with the other side by its
// number between the two processes.
type Message struct {
	Peer   int
	Number uint32
	Send   bool
	Data   []byte
}

// Transfer is a set of messages in flight.
type Transfer interface {
	// Done is closed when all of them are complete.
	Done() <-chan struct{}
	// Err returns the error of the transfer, once it is done.
	Err() error
}
