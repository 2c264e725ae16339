package launch

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
)

// server is the PMI server of a job's processes on this host.
type server struct {
	// n is how many of the size processes it serves; mapping is the placement of all of them.
	n, size int
	mapping string
	// fence, if set, exchanges the keys that this server's processes have put with those of other servers. It is
	// called when all processes of this server have reached a barrier.
	fence func(put map[string]string) (all map[string]string, err error)

	mu      sync.Mutex
	values  map[string]string
	put     map[string]string // since the last barrier
	waiting []io.Writer       // in the barrier
	aborted func(message string)
}

// kvsName is the name of the one key-value space.
const kvsName = "galley"

// serve answers the requests of one process until it closes the connection.
func (s *server) serve(rw io.ReadWriter) error {
	lines := bufio.NewScanner(rw)
	for lines.Scan() {
		answer, last := s.answer(parseLine(lines.Text()), rw)
		if answer != "" {
			if _, err := io.WriteString(rw, answer+"\n"); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
	return lines.Err()
}

// parseLine parses a line of key=value words. A value may contain anything but a blank.
func parseLine(line string) map[string]string {
	words := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(word, "="); ok {
			words[k] = v
		}
	}
	return words
}

// answer returns the response to a request; last reports that it is the process's last one.
func (s *server) answer(words map[string]string, to io.Writer) (answer string, last bool) {
	switch cmd := words["cmd"]; cmd {
	case "init":
		return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", false
	case "get_maxes":
		return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024", false
	case "get_appnum":
		return "cmd=appnum appnum=0", false
	case "get_my_kvsname":
		return "cmd=my_kvsname kvsname=" + kvsName, false
	case "get_universe_size":
		return fmt.Sprintf("cmd=universe_size size=%d", s.size), false
	case "put":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.values[words["key"]] = words["value"]
		if s.fence != nil {
			if s.put == nil {
				s.put = map[string]string{}
			}
			s.put[words["key"]] = words["value"]
		}
		return "cmd=put_result rc=0 msg=success", false
	case "get":
		return s.get(words["key"]), false
	case "barrier_in":
		s.barrier(to)
		return "", false
	case "finalize":
		return "cmd=finalize_ack", true
	case "abort":
		s.aborted(words["error_msg"])
		return "", true
	default:
		return fmt.Sprintf("cmd=%s rc=-1 msg=unknown_command", cmd), false
	}
}

// get returns the value of a key. The server itself knows the placement of processes.
func (s *server) get(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == "PMI_process_mapping" {
		return "cmd=get_result rc=0 msg=success value=" + s.mapping
	}
	value, ok := s.values[key]
	if !ok {
		return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
	}
	return "cmd=get_result rc=0 msg=success value=" + value
}

// barrier answers all processes when the last one has reached it.
func (s *server) barrier(to io.Writer) {
	s.mu.Lock()
	s.waiting = append(s.waiting, to)
	if len(s.waiting) < s.n {
		s.mu.Unlock()
		return
	}
	waiting, put := s.waiting, s.put
	s.waiting, s.put = nil, nil
	s.mu.Unlock()
	if s.fence != nil && !s.meet(put) {
		return
	}
	for _, w := range waiting {
		_, _ = io.WriteString(w, "cmd=barrier_out\n") // a process that is gone is noticed elsewhere
	}
}

// meet adds the keys that processes of other servers have put. If that fails the job is aborted.
func (s *server) meet(put map[string]string) bool {
	all, err := s.fence(put)
	if err != nil {
		s.aborted(err.Error())
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.values, all)
	return true
}

// oneHost returns the PMI mapping of n processes on one host.
func oneHost(n int) string { return fmt.Sprintf("(vector,(0,1,%d))", n) }
