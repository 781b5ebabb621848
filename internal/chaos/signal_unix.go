//go:build unix

package chaos

import (
	"os"
	"syscall"
)

// canPause reports whether processes can be stopped and resumed here.
const canPause = true

func pause(p *os.Process)  { _ = p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
