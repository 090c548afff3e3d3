// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// asRoot adds to an error for lack of privileges how an ordinary user runs a command. What follows names the capabilities,
// which are for those who may not be root.
func asRoot(cmd *cobra.Command, err error) error {
	if os.Geteuid() <= 0 { // or there are no users
		return err
	}
	for _, missing := range []error{perfring.ErrPermission, kallsyms.ErrRestricted, bpf.ErrPermission, tasks.ErrPermission} {
		if errors.Is(err, missing) {
			return fmt.Errorf("run it as root: sudo %s\n%w", cmd.CommandPath(), err)
		}
	}
	return err
}
