// A search takes what is typed as words, for it may be a message: the signs of the search's own language, such as the
// hyphens of a flag or a colon, become blanks on their way to the worker that searches.
const QUERY = 2; // the type of its messages that hold a query
const postMessage = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...others) {
  if (message && message.type === QUERY) {
    message = { ...message, data: message.data.replace(/[-+*~^:"]/g, " ") };
  }
  return postMessage.call(this, message, ...others);
};
