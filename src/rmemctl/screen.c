/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"

/* Of ECMA-48 and xterm, which the terminals of today have in common. */
#define BEGIN "\033[?1049h\033[?25l" /* the other screen; no cursor */
#define END "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static const int deadly[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
			      SIGSEGV, SIGBUS,  SIGABRT, SIGFPE };

static struct termios before;
static volatile sig_atomic_t taken;

/* Only what a handler of a signal may do. */
static void give_back(void)
{
	ssize_t ignored;

	if (!taken)
		return;
	taken = 0;
	ignored = write(STDOUT_FILENO, END, sizeof(END) - 1);
	(void)ignored;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static int take(void)
{
	struct termios raw = before;

	/* keys come one by one and are not shown; those that send signals do so */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw))
		return -errno;
	taken = 1;
	if (write(STDOUT_FILENO, BEGIN, sizeof(BEGIN) - 1) < 0)
		return -errno;
	return 0;
}

/* The handler is removed by then, so that the signal does what it does without one. */
static void on_deadly(int number)
{
	give_back();
	(void)raise(number);
}

static void handler_set(int number, void (*handler)(int), unsigned flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = (int)flags };

	(void)sigemptyset(&action.sa_mask);
	(void)sigaction(number, &action, NULL);
}

static void on_stop(int number)
{
	int saved = errno;
	sigset_t set;

	give_back();
	handler_set(number, SIG_DFL, 0);
	(void)raise(number);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, number);
	/* it stops here, until SIGCONT */
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	handler_set(number, on_stop, 0);
	(void)take();
	errno = saved;
}

/* It ends the wait for a key. */
static void on_resize(int)
{
}

bool screen_there(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
	       strcmp(term, "dumb") != 0;
}

int screen_open(void)
{
	int err;

	if (tcgetattr(STDIN_FILENO, &before))
		return err_errno(-errno, "the terminal");
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		handler_set(deadly[i], on_deadly, SA_RESETHAND | SA_NODEFER);
	handler_set(SIGTSTP, on_stop, 0);
	handler_set(SIGWINCH, on_resize, 0);
	if (atexit(give_back))
		return err_set(-ENOMEM, "no memory for the terminal");
	err = take();
	return err ? err_errno(err, "the terminal") : 0;
}

void screen_close(void)
{
	give_back();
}

void screen_size(unsigned *ret_lines, unsigned *ret_columns)
{
	struct winsize size = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	*ret_lines = size.ws_row;
	*ret_columns = size.ws_col;
}

/* The bytes of at most `columns` characters. */
static size_t line_bytes(const char *line, size_t bytes, unsigned columns)
{
	size_t n = 0, i;

	for (i = 0; i < bytes; i++) {
		n += ((unsigned char)line[i] & 0xc0) != 0x80;
		if (n > columns)
			break;
	}
	return i;
}

int screen_draw(const char *text)
{
	unsigned lines, columns;

	screen_size(&lines, &columns);
	(void)fputs(HOME, stdout);
	for (unsigned i = 0; i < lines && *text; i++) {
		size_t bytes = strcspn(text, "\n");

		(void)fwrite(text, line_bytes(text, bytes, columns), 1, stdout);
		(void)fputs(i + 1 < lines ? CLEAR_LINE "\r\n" : CLEAR_LINE, stdout);
		text += bytes + (text[bytes] == '\n');
	}
	(void)fputs(CLEAR_REST, stdout);
	return fflush(stdout) ? err_errno(-errno, "writing to the terminal") : 0;
}

int screen_key(unsigned timeout_ms)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	unsigned char key;
	int n = poll(&in, 1, (int)timeout_ms);

	if (n < 0 && errno != EINTR)
		return SCREEN_END;
	if (n <= 0)
		return SCREEN_TIMEOUT;
	return read(STDIN_FILENO, &key, 1) == 1 ? key : SCREEN_END;
}
