package etcd

import "syscall"

// attributes makes the server end with this process, and shields it from the terminal's signals.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
