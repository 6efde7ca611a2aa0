//go:build unix

package localserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that the server runs as when we are root, which PostgreSQL refuses to run as.
type owner struct {
	name     string
	uid, gid uint32
}

// serverOwner returns nil when our own user will do.
func serverOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &owner{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("run the server as root: PostgreSQL refuses that, and there is no user postgres or nobody to run it as")
}

func (o *owner) String() string {
	if o == nil {
		return "the current user"
	}
	return o.name
}

// take makes a file or folder the owner's.
func (o *owner) take(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}

// reach reports the first folder on the way to dir that the owner may not enter.
func (o *owner) reach(dir string) error {
	if o == nil {
		return nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().Perm()&0o001 == 0 && st.Uid != o.uid {
			return fmt.Errorf("as root the server runs as user %s, who cannot enter %s: choose a folder that everyone can reach", o.name, parent)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

// run makes the command run as the owner, in a process group of its own, so that an interrupt from the terminal reaches
// us alone.
func (o *owner) run(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}
