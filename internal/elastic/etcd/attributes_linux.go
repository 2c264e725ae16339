package etcd

import "syscall"

// attributes has the server end with this process, and keeps the terminal's signals from it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
