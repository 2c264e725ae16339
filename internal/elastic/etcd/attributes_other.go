//go:build !linux

package etcd

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
