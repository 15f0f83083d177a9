"""Lists letters, redrives one and follows the operation, with the client that openapi-python-client made."""

import sys
import time

from redrive_client import AuthenticatedClient
from redrive_client.api.letters import get_dead_letter, list_dead_letters
from redrive_client.api.operations import get_operation, start_redrive
from redrive_client.models import LetterPage, LetterView, OperationStateName, OperationView, RedriveRequest, StatusName

PATIENCE = 60


def eventually(what, ask):
    end = time.monotonic() + PATIENCE
    while not (found := ask()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


def of(kind, answer):
    assert isinstance(answer, kind), answer
    return answer


address, token = sys.argv[1:]
client = AuthenticatedClient(base_url=address, token=token)


def open_letters():
    page = of(LetterPage, list_dead_letters.sync(client=client, pipeline="orders", status=StatusName.OPEN))
    return page.letters if len(page.letters) == 2 else None


letter = eventually("two letters are open", open_letters)[0]
operation = of(OperationView, start_redrive.sync(client=client, body=RedriveRequest(ids=[letter.id], note="python")))


def finished():
    found = of(OperationView, get_operation.sync(operation.id, client=client))
    return found if found.state is OperationStateName.FINISHED else None


operation = eventually("the operation is finished", finished)
assert (operation.total, operation.done, operation.refused) == (1, 1, 0), operation


def failed_again():
    found = of(LetterView, get_dead_letter.sync(letter.id, client=client))
    return found.redelivery if found.redelivery and found.redelivery.letter else None


again = eventually("the letter failed again", failed_again)
assert of(LetterView, get_dead_letter.sync(again.letter, client=client)).redriven_from == letter.id
print(f"{letter.id} was redriven by operation {operation.id} and failed again as {again.letter}")
