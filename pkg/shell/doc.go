// Package shell reads command lines of a shell: whether their programs only look at files, or also build
// in the folder. A program keeps that kind only with options that are listed for it.
package shell
