package galley

import "github.com/galley-ml/galley/internal/comm"

// JobOver is the job that a transport connects, for tests whose processes are goroutines.
func JobOver(t comm.Transport) (*Job, error) { return newJob(t, "a test", "goroutines") }
