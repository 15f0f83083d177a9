# shellcheck shell=bash
# The table at the end. $results has one line per row, fields separated by tabs:
#   suite  passed  failed  skipped  [note]...

results= # set once the run has a folder

record() { # SUITE PASSED FAILED SKIPPED [NOTE]
    local IFS=$'\t'
    echo "$*" >>"$results"
}

record_suites() { # LOG STATUS: output and exit status of scripts/suites
    local suites
    suites=$(awk -f scripts/suites.awk "$1" | LC_ALL=C sort)
    [ -z "$suites" ] || echo "$suites" >>"$results"
    if [ "$2" != 0 ] && ! awk -F '\t' '$3 > 0 { found = 1 } END { exit !found }' <<<"$suites"; then
        record tests 0 1 0 "FAILED: exit status $2 before the tests were done"
    fi
}

notes() { # only the rows that have something to say
    awk -F '\t' 'NF > 4 { print $1 ": " $5 }' "$results"
}

report() { # fails if anything failed
    awk -F '\t' '
        { rows[NR] = $0; if (length($1) > width) width = length($1) }
        END {
            row = "%-" width "s  %6s  %6s  %7s  %s\n"
            print ""
            printf row, "suite", "passed", "failed", "skipped", "reason"
            for (i = 1; i <= NR; i++) print_row(rows[i])
            if (empty) print "without tests: " empty
            printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0
        }
        function print_row(line,   fields, n, i) {
            n = split(line, fields, "\t")
            passed += fields[2]; failed += fields[3]; skipped += fields[4]
            if (n == 4 && !fields[2] && !fields[3] && !fields[4]) {
                empty = empty (empty ? ", " : "") fields[1]
                return
            }
            printf row, fields[1], fields[2], fields[3], fields[4], fields[5]
            for (i = 6; i <= n; i++) printf row, "", "", "", "", fields[i]
        }' "$results"
}
