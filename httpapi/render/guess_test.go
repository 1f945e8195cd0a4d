package render

import (
	"testing"

	"github.com/matryer/is"
)

// Code of each language is recognised, and nothing that is no code.
func TestGuess(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\necho hi":                                            "Bash",
		"#!/bin/bash -e\nls":                                            "Bash",
		"#! /usr/bin/env zsh\nls":                                       "Bash",
		"#!/usr/bin/env python3\nprint(1)":                              "Python",
		"#!/usr/bin/python3.11 -u\nx":                                   "Python",
		"#!/usr/bin/env -S node --no-warnings\nx":                       "JavaScript",
		"#!/usr/bin/env -S deno run\nx":                                 "TypeScript",
		"#!/usr/bin/env A=b perl -w\nx":                                 "Perl",
		"#!/opt/ruby/bin/ruby\nx":                                       "Ruby",
		"#!/usr/bin/env Rscript\nx":                                     "R",
		"#!/usr/bin/make -f\nx:":                                        "Makefile",
		"#!/usr/bin/gawk -f\n{ print }":                                 "Awk",
		"#!/usr/bin/env pwsh\nx":                                        "PowerShell",
		"#!/usr/bin/env php\n<?php":                                     "PHP",
		`{"a": [1, true]}`:                                              "JSON",
		"[\n  1,\n  2\n]\n":                                             "JSON",
		"<?xml version=\"1.0\"?>\n<a/>":                                 "XML",
		"<note>\n  <to>Ann</to>\n</note>\n":                             "XML",
		"<!DOCTYPE html>\n<title>a</title>":                             "HTML",
		"<div class=\"a\">\n  <p>b</p>\n</div>":                         "HTML",
		"<?php echo 1;":                                                 "PHP",
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n":                        "Diff",
		"--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n":                           "Diff",
		"GET /a HTTP/1.1\nHost: b\n":                                    "HTTP",
		"\\documentclass{article}\n\\begin{document}":                   "TeX",
		"FROM alpine:3\nRUN apk add git\n":                              "Docker",
		"package main\n\nimport \"fmt\"\n\nfunc main() {}\n":            "Go",
		"func (s *T) Add(n int) error {\n\treturn nil\n}":               "Go",
		"public class A {\n  public static void main(String[] a) {}\n}": "Java",
		"using System;\n\nclass A {}\n":                                 "C#",
		"#include <iostream>\nint main() {}\n":                          "C++",
		"#include <stdio.h>\nint main(void) { return 0; }\n":            "C",
		"fn main() {\n    println!(\"a\");\n}":                          "Rust",
		"use std::fs;\n":                                                "Rust",
		"fun main() {\n    println(1)\n}":                               "Kotlin",
		"import SwiftUI\n\nstruct A: View {}":                           "Swift",
		"def add(a, b):\n    return a + b\n":                            "Python",
		"from os import path\n":                                         "Python",
		"import os\n\nprint(os.getcwd())\n":                             "Python",
		"class A:\n    pass":                                            "Python",
		"require 'json'\n\ndef a\n  1\nend\n":                           "Ruby",
		"local x = 1\nprint(x)\n":                                       "Lua",
		"interface A {\n  b: string;\n}\n":                              "TypeScript",
		"export function f(a: number) {}\n":                             "TypeScript",
		"const a = [1, 2].map((x) => x * 2);\n":                         "JavaScript",
		"console.log('a')":                                              "JavaScript",
		"function f(a) {\n  return a;\n}":                               "JavaScript",
		"Get-ChildItem -Recurse | Remove-Item\n":                        "PowerShell",
		"SELECT a, b\nFROM c\nWHERE d = 1":                              "SQL",
		"select * from users;":                                          "SQL",
		"-- all\nCREATE TABLE a (b int);":                               "SQL",
		"server {\n  listen 80;\n}":                                     "Nginx configuration file",
		".a, .b > c {\n  color: red;\n}":                                "CSS",
		"all: a\n\tgo build ./...\n":                                    "Makefile",
		"[a]\nb = \"c\"\nd = 1\n":                                       "TOML",
		"[Unit]\nDescription=A service\n":                               "INI",
		"for f in *.jpg; do\n  echo $f\ndone":                           "Bash",
		"docker run --rm -it alpine sh":                                 "Bash",
		"git log --oneline | head":                                      "Bash",
		"services:\n  web:\n    image: nginx\n":                         "YAML",
		"on: push\njobs:\n  test:\n    runs-on: a\n":                    "YAML",

		"":                                     "",
		"\n\n":                                 "",
		"Milk, bread, 3 eggs":                  "",
		"Select a gift from the list; then go": "",
		"Buy:\n- milk\n- bread\n":              "",
		"Dear Ann,\n\nimport duties are due. Find the letter in the drawer.\n\nBob": "",
		"git is a program for versions of files.":                                   "",
		"a,b,c\n1,2,3\n": "",
		"2026-01-02 03:04:05 INFO started (pid=7)\n":      "",
		"1. Whisk: two eggs\n2. Fry":                      "",
		"Title: a letter\n\nIt was late.":                 "",
		"Zutaten:\n  Mehl, Zucker\nDann backen.":          "",
		"[x] done\n[ ] open":                              "",
		"{ not json }":                                    "",
		"The end\n\nend":                                  "",
		"https://example.org/a?b=c":                       "",
		"Note to self -- call Ann && Bob":                 "",
		"const is a word. let me see, function of things": "",
		"#! no script":                                    "",
		"class of 2026: a reunion":                        "",
	} {
		t.Run(text, func(t *testing.T) {
			is := is.New(t)
			got := ""
			if language := guess(text); language != "" {
				g, err := find(language, "")
				is.NoErr(err)
				got = g.Name
			}
			is.Equal(got, want)
		})
	}
}

// What is known about the language counts more than the content.
func TestLanguageOf(t *testing.T) {
	const script = "#!/bin/sh\necho hi"
	for _, c := range []struct{ language, filename, want string }{
		{"", "", "sh"},
		{"", "deploy", "sh"},
		{"go", "", "go"},
		{"", "a.go", ""},
		{"", "a.txt", ""},
		{"text", "", "text"},
		{"no such language", "", "no such language"},
	} {
		if got := languageOf(script, c.language, c.filename); got != c.want {
			t.Errorf("%q %q: %q, not %q", c.language, c.filename, got, c.want)
		}
	}
}
